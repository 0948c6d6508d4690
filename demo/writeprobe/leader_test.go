package writeprobe

import "testing"

// TestRecordLeader expects that a member that lags behind does not change the leader back.
func TestRecordLeader(t *testing.T) {
	p := &Probe{}
	for _, report := range []struct {
		leader    string
		term      uint64
		want      string
		elections int
	}{
		{"a", 2, "a", 0}, {"a", 2, "a", 0}, {"b", 3, "b", 1}, {"a", 2, "b", 1}, {"b", 3, "b", 1}, {"a", 4, "a", 2},
	} {
		p.recordLeader(report.leader, report.term)
		if counts, leader := p.Counts(); leader != report.want || counts.Elections != report.elections {
			t.Errorf("after %s in term %d: %s leads, after %d elections", report.leader, report.term, leader, counts.Elections)
		}
	}
}
