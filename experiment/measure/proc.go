package measure

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// What is noted of every process, whether or not it says something of itself.
const (
	CPU      = "experiment_cpu_seconds_total"
	Resident = "experiment_resident_bytes"
	// Seen is when it was noted, so that it can be told for how long a process was there.
	Seen = "experiment_seen_seconds"
	// Received and Sent count all that is read and written, also files: there is nearly nothing but the network here.
	Received = "experiment_received_bytes_total"
	Sent     = "experiment_sent_bytes_total"
)

// Proc notes what the kernel says of a process.
func (s *Samples) Proc(pid int) error {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return fmt.Errorf("looking at process %d of %s: %w", pid, s.process, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return fmt.Errorf("looking at process %d of %s: %w", pid, s.process, err)
	}
	s.Add(CPU, stat.CPUTime())
	s.Add(Seen, float64(s.at)/1000)
	s.Add(Resident, float64(stat.ResidentMemory()))
	io, err := proc.IO()
	if err != nil {
		return fmt.Errorf("looking at what process %d of %s reads and writes: %w", pid, s.process, err)
	}
	s.Add(Received, float64(io.RChar))
	s.Add(Sent, float64(io.WChar))
	return nil
}
