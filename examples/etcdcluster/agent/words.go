package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// sizeOf is how much is in a log, nothing if there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastWords is what a process wrote that tells most about its end, for messages. The log had a size when it began.
func lastWords(path string, from int64) string {
	const most = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	size := sizeOf(path)
	if size < from {
		from = 0 // another log was begun
	}
	if _, err := file.Seek(max(from, size-most), io.SeekStart); err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.300s", telling(string(content)))
}

// telling is the last message of an etcd's log. One that does not understand its flags says so first, and explains all
// of them then, without a message.
func telling(wrote string) string {
	var first, last string
	for line := range strings.Lines(wrote) {
		line = strings.TrimSpace(line)
		first = cmp.Or(first, line)
		var message struct{ Msg, Error string }
		if json.Unmarshal([]byte(line), &message) == nil {
			last = strings.TrimSuffix(message.Msg+": "+message.Error, ": ")
		}
	}
	return cmp.Or(last, first, "none")
}
