// Command racy has a data race, for the rig's own test of its race-detector builds.
package main

func main() {
	shared, done := 0, make(chan struct{})
	go func() {
		shared++
		close(done)
	}()
	shared++
	<-done
}
