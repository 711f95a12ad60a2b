// Command gen makes the files that are served from those that people write:
//
//	gen stub stub.pyi __init__.pyi               the types of the Python client
//	gen methods 5_client.py 4a_operations.py
//	                                             the methods of the Python client, with signatures and docstrings
//	gen operations operations_test.go,api.md api.md
//	                                             the table of all operations in a page, with their names in the clients
//	gen join 'checkers/python/*' check.py        the files that a pattern matches in the order of their names, in one
//	                                             file
package main

import (
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	makers := map[string]func(from string) ([]byte, error){"join": join, "stub": stub, "methods": pythonMethods, "operations": operationsPage}
	if len(os.Args) != 4 || makers[os.Args[1]] == nil {
		log.Fatal("usage: gen join|stub|methods|operations FROM TO")
	}
	made, err := makers[os.Args[1]](os.Args[2])
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	if err := os.WriteFile(os.Args[3], made, 0o644); err != nil {
		log.Fatal(err)
	}
}
