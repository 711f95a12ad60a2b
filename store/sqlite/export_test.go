package sqlite

// What decides about a file system, for tests that can mount none.
var (
	DecideFileSystem = fileSystemOf
	KnownFileSystems = fileSystems
	JudgeFileSystem  = FileSystem.judge
)
