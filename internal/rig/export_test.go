package rig

// ReadRoles is readRoles, for the tests.
var ReadRoles = readRoles
