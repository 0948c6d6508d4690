// Package seed makes the random choices of tests repeatable: every test that chooses at random logs its seed, and the
// same choices are made again when that seed is given in the environment.
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Variable is the environment variable with the seed of a test run. Without it every run has another one.
const Variable = "RINGMASTER_TEST_SEED"

// ofRun is the seed of this test run.
var ofRun = sync.OnceValues(func() (uint64, error) {
	given := os.Getenv(Variable)
	if given == "" {
		const short = 1 << 32
		return rand.Uint64N(short), nil
	}
	const decimal, bits = 10, 64
	return strconv.ParseUint(given, decimal, bits)
})

// Run returns the seed of this test run and logs how to use it again.
func Run(t testing.TB) uint64 {
	t.Helper()
	seed, err := ofRun()
	if err != nil {
		t.Fatalf("reading the seed in %s: %v", Variable, err)
	}
	t.Logf("random choices are those of %s=%d", Variable, seed)
	return seed
}

// Rand returns a source of random choices for a test, which may be used from several goroutines. Tests with different
// names make different choices.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return New(Run(t), t.Name())
}

// New returns a source of random choices for something with a name in a run with a seed.
func New(seed uint64, name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return rand.New(&source{pcg: rand.NewPCG(seed, hash.Sum64())})
}

// source can be used from several goroutines.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}
