package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// fileSize returns the size of a file, or 0 if it does not exist.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastMessage returns the most useful message of a log after an offset.
func lastMessage(path string, from int64) string {
	const maxBytes = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	size := fileSize(path)
	if size < from {
		from = 0 // a new log was begun
	}
	if _, err := file.Seek(max(from, size-maxBytes), io.SeekStart); err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.300s", lastLogMessage(string(content)))
}

// lastLogMessage returns the last message of an etcd log. For an unknown flag etcd prints the error first, and
// then its usage without messages.
func lastLogMessage(wrote string) string {
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
