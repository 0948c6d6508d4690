package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// StartTCP starts a proxy on a free loopback port, without any fault, that forwards bytes to the target, a host and
// port. It does not distinguish watches.
func StartTCP(target string) (*Proxy, error) {
	p, err := listen()
	if err != nil {
		return nil, err
	}
	p.server = p.listener
	go func() {
		for {
			conn, err := faultyListener{p.listener, p}.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				panic(fmt.Sprintf("the fault proxy ended: %v", err))
			}
			go pass(conn.(*faultyConn), target)
		}
	}()
	return p, nil
}

// pass forwards bytes in both directions until one side closes the connection.
func pass(client *faultyConn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.reset()
		return
	}
	go func() {
		<-client.ended
		server.Close()
	}()
	go func() {
		_, _ = io.Copy(server, client)
		client.Close()
	}()
	_, _ = io.Copy(client, server)
	client.Close()
}
