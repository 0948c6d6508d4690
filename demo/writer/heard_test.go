package writer

import "testing"

// A member that lags behind does not make a leader of one that was.
func TestHeard(t *testing.T) {
	p := &Pulse{}
	for _, said := range []struct {
		leader    string
		term      uint64
		now       string
		elections int
	}{
		{"a", 2, "a", 0}, {"a", 2, "a", 0}, {"b", 3, "b", 1}, {"a", 2, "b", 1}, {"b", 3, "b", 1}, {"a", 4, "a", 2},
	} {
		p.heard(said.leader, said.term)
		if counts, leader := p.Counts(); leader != said.now || counts.Elections != said.elections {
			t.Errorf("after %s in term %d: %s leads, after %d elections", said.leader, said.term, leader, counts.Elections)
		}
	}
}
