package rig

// ReadRoles is readRoles, for the tests.
var ReadRoles = readRoles

// CheckOut is checkOut, for the tests.
var CheckOut = checkOut

// Prebuilt is where a program was built before the tests.
func Prebuilt(folder, pkg string, options ...BuildOption) string {
	return newBinary(pkg, options).prebuilt(folder)
}
