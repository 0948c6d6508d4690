package app

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryLimit is the environment variable with the memory limit of the container in bytes, from the downward API.
const memoryLimit = "SHARDER_MEMORY_LIMIT"

// limitMemory makes the garbage collector run more often when the memory approaches the limit of the container. A tenth
// is left for memory that Go does not manage. GOMEMLIMIT takes precedence.
func limitMemory() error {
	text := os.Getenv(memoryLimit)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	const decimal, bits = 10, 64
	limit, err := strconv.ParseInt(text, decimal, bits)
	if err != nil || limit <= 0 {
		return fmt.Errorf("invalid %s %q: must be a number of bytes, as the downward API sets it for limits.memory", memoryLimit, text)
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}
