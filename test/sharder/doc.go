// Package sharder tests the sharder as a user runs it: the real binary, two replicas, a real API
// server that asks its webhook, and the roles from config/.
package sharder
