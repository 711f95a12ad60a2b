package sqlite

// TypeOfDevice reads mountinfo, for tests that can mount nothing.
var TypeOfDevice = typeOfDevice
