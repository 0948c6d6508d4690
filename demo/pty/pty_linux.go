package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func open() (*Pair, error) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		person.Close()
		return nil, err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		person.Close()
		return nil, err
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		person.Close()
		return nil, err
	}
	return &Pair{Person: person, Terminal: terminal}, nil
}
