package measure

import "github.com/ringmaster-project/ringmaster/internal/usage"

// The names of the series of every process, whether or not it serves metrics.
const (
	CPU      = "experiment_cpu_seconds_total"
	Resident = "experiment_resident_bytes"
	// Seen is when the sample was taken, which shows for how long a process existed.
	Seen = "experiment_seen_seconds"
	// Received and Sent count all bytes that are read and written, including files: nearly all of it is the network here.
	Received = "experiment_received_bytes_total"
	Sent     = "experiment_sent_bytes_total"
)

// Proc adds a process's use of resources as the kernel accounts it.
func (b *Batch) Proc(pid int) error {
	used, err := usage.Of(pid)
	if err != nil {
		return err
	}
	b.Add(CPU, used.CPU.Seconds())
	b.Add(Seen, float64(b.at)/1000)
	b.Add(Resident, used.Resident)
	b.Add(Received, used.Received)
	b.Add(Sent, used.Sent)
	return nil
}
