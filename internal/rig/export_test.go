package rig

// ReadRoles is readRoles, for the tests.
var ReadRoles = readRoles

// CheckOut is checkOut, for the tests.
var CheckOut = checkOut
