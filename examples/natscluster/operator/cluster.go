package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// metaGroup stands for the Raft group that manages the streams. Each stream has its own group too.
const metaGroup = "$meta"

// requestTimeout is the timeout of a request to NATS.
const requestTimeout = 2 * time.Second

// cluster has the connections to the NATS cluster: sys of the system account, app of the account with the streams.
type cluster struct{ sys, app *nats.Conn }

// connect connects both accounts to any of the servers.
func connect(urls []string) (c cluster, err error) {
	dial := func(user string) (*nats.Conn, error) {
		return nats.Connect(strings.Join(urls, ","), nats.UserInfo(user, user), nats.MaxReconnects(-1), nats.ReconnectWait(requestTimeout/10))
	}
	if c.sys, err = dial("sys"); err == nil {
		c.app, err = dial("app")
	}
	return c, err
}

// state is the state of the cluster, as reported by the servers.
type state struct {
	// servers are the servers that have answered, with their numbers of streams.
	servers map[string]int
	// peers are all servers of the cluster, running or not.
	peers []string
	// groups are the groups with a leader, by stream.
	groups map[string]*server.ClusterInfo
}

// state queries all servers. It takes longer if one of them does not run.
func (c cluster) state() *state {
	s := &state{servers: map[string]int{}, groups: map[string]*server.ClusterInfo{}}
	request, _ := json.Marshal(server.JSzOptions{Accounts: true, Streams: true, StreamLeaderOnly: true})
	inbox := c.sys.NewInbox()
	answers, err := c.sys.SubscribeSync(inbox)
	defer func() { _ = answers.Unsubscribe() }()
	err = errors.Join(err, c.sys.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, request))
	for err == nil && (len(s.peers) == 0 || len(s.servers) < len(s.peers)) {
		message, err := answers.NextMsg(requestTimeout)
		if err != nil {
			break // the remaining servers do not run
		}
		var answer server.ServerAPIJszResponse
		if err := json.Unmarshal(message.Data, &answer); err == nil && answer.Data != nil && answer.Data.Meta != nil {
			s.addResponse(answer.Server.Name, answer.Data)
		}
	}
	return s
}

func (s *state) addResponse(name string, answer *server.JSInfo) {
	s.servers[name] = answer.Streams
	if answer.Meta.Leader == name {
		s.groups[metaGroup] = &server.ClusterInfo{Leader: name, Replicas: answer.Meta.Replicas}
		s.peers = members(s.groups[metaGroup])
	}
	for _, account := range answer.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Cluster != nil {
				s.groups[stream.Name] = stream.Cluster
			}
		}
	}
}

// members returns the members of a group, the leader first.
func members(group *server.ClusterInfo) []string {
	names := []string{group.Leader}
	for _, replica := range group.Replicas {
		names = append(names, replica.Name)
	}
	return names
}

// notReady returns NotYet while a server is not up to date or a group has no leader. It ignores the given servers.
func (s *state) notReady(except ...string) error {
	if s.groups[metaGroup] == nil {
		return coordination.NotYet("the cluster does not answer, or has no leader")
	}
	streams := map[string]int{}
	for name, group := range s.groups {
		for _, r := range group.Replicas {
			if !slices.Contains(except, r.Name) && (!r.Current || r.Offline || r.Pending || r.Lag > 0) {
				return coordination.NotYet("%s is not up to date in %s", r.Name, name)
			}
		}
		for _, member := range members(group) {
			streams[member]++
		}
	}
	for _, name := range s.peers { // each is a member of the meta group too
		if found, answers := s.servers[name]; !slices.Contains(except, name) && (!answers || found+1 != streams[name]) {
			return coordination.NotYet("%s does not run, or not all of its streams have a leader", name)
		}
	}
	return nil
}

// leaderCount returns the number of groups that a server leads, or -1 if it does not run.
func (s *state) leaderCount(name string) (n int) {
	if _, runs := s.servers[name]; !runs {
		return -1
	}
	for _, group := range s.groups {
		if group.Leader == name {
			n++
		}
	}
	return n
}

// moveLeaders moves the leaders of all groups away from a server: to the given server that leads the fewest groups, or if none of them
// is a member of the group, to one that NATS chooses. It returns the number of requested moves.
func (c cluster) moveLeaders(ctx context.Context, s *state, from string, to []string) (moved int, err error) {
	for name, group := range s.groups {
		if group.Leader != from {
			continue
		}
		var request server.JSApiLeaderStepdownRequest
		slices.SortFunc(to, func(a, b string) int { return s.leaderCount(a) - s.leaderCount(b) })
		if i := slices.IndexFunc(to, func(s string) bool { return slices.Contains(members(group)[1:], s) }); i >= 0 {
			group.Leader = to[i] // counts for the next group
			request.Placement = &server.Placement{Preferred: to[i]}
		}
		connection, subject := c.app, fmt.Sprintf(server.JSApiStreamLeaderStepDownT, name)
		if name == metaGroup {
			connection, subject = c.sys, server.JSApiLeaderStepDown
		}
		if err := call(ctx, connection, subject, request); err != nil {
			return moved, fmt.Errorf("moving the leader of %s away from %s: %w", name, from, err)
		}
		moved++
	}
	return moved, nil
}

// call sends a request to JetStream.
func call(ctx context.Context, connection *nats.Conn, subject string, request any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	content, _ := json.Marshal(request)
	message, err := connection.RequestWithContext(ctx, subject, content)
	if err != nil {
		return err
	}
	var answer server.ApiResponse
	return errors.Join(json.Unmarshal(message.Data, &answer), answer.ToError())
}
