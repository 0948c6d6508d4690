//go:build !long

package modes

// inAll is whether all behaviours are tested in all modes, or the long ones only in some.
const inAll = false
