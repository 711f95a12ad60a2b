// Command gen makes, of the API reference, the files that come from it:
//
//	gen stub stub.pyi __init__.pyi               the types of the Python client
//	gen methods _client.py _operations.py        the methods of the Python client, with signatures and docstrings
//	gen operations operations_test.go,api.md api.md
//	                                             the table of all operations in a page, with their names in the clients
package main

import (
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	makers := map[string]func(from string) ([]byte, error){"stub": stub, "methods": pythonMethods, "operations": operationsPage}
	if len(os.Args) != 4 || makers[os.Args[1]] == nil {
		log.Fatal("usage: gen stub|methods|operations FROM TO")
	}
	made, err := makers[os.Args[1]](os.Args[2])
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	if err := os.WriteFile(os.Args[3], made, 0o644); err != nil {
		log.Fatal(err)
	}
}
