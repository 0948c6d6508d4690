// Package seed makes the random choices of tests repeatable. Each test logs its seed, and repeats its
// choices if that seed is set in the environment.
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Variable is the environment variable with the seed of a test run. By default the seed is random.
const Variable = "RINGMASTER_TEST_SEED"

// ofRun is the seed of this test run.
var ofRun = sync.OnceValues(func() (uint64, error) {
	value := os.Getenv(Variable)
	if value == "" {
		const short = 1 << 32
		return rand.Uint64N(short), nil
	}
	const decimal, bits = 10, 64
	return strconv.ParseUint(value, decimal, bits)
})

// ForRun returns the seed of this test run and logs how to set it.
func ForRun(t testing.TB) uint64 {
	t.Helper()
	seed, err := ofRun()
	if err != nil {
		t.Fatalf("reading the seed in %s: %v", Variable, err)
	}
	t.Logf("to repeat the random choices, set %s=%d", Variable, seed)
	return seed
}

// Rand returns a source of random numbers for a test, safe for concurrent use. Tests with different
// names get different numbers.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return New(ForRun(t), t.Name())
}

// New returns a source of random numbers, safe for concurrent use, for a seed and a name.
func New(seed uint64, name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return rand.New(&source{pcg: rand.NewPCG(seed, hash.Sum64())})
}

// source is a rand.Source that is safe for concurrent use.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}
