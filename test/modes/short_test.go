//go:build !long

package modes

// inAll is whether every behaviour is tested in every mode, or the long ones only where they matter most.
const inAll = false
