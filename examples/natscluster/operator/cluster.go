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

// meta stands for the group of servers that knows which streams there are, beside the groups of the streams.
const meta = "$meta"

// patience is how long NATS may take for an answer.
const patience = 2 * time.Second

// cluster is the NATS cluster: sys is a connection of the system's account, and app one of the account with the streams.
type cluster struct{ sys, app *nats.Conn }

// connect connects both accounts to any of the servers.
func connect(urls []string) (c cluster, err error) {
	dial := func(user string) (*nats.Conn, error) {
		return nats.Connect(strings.Join(urls, ","), nats.UserInfo(user, user), nats.MaxReconnects(-1), nats.ReconnectWait(patience/10))
	}
	if c.sys, err = dial("sys"); err == nil {
		c.app, err = dial("app")
	}
	return c, err
}

// state is what the servers say.
type state struct {
	// servers are those that have answered, with the number of streams that they have.
	servers map[string]int
	// peers are all that belong to the cluster, whether they run or not.
	peers []string
	// groups are the groups that have a leader, by stream.
	groups map[string]*server.ClusterInfo
}

// state asks all servers. It takes longer if one of them does not run.
func (c cluster) state() *state {
	s := &state{servers: map[string]int{}, groups: map[string]*server.ClusterInfo{}}
	question, _ := json.Marshal(server.JSzOptions{Accounts: true, Streams: true, StreamLeaderOnly: true})
	inbox := c.sys.NewInbox()
	answers, err := c.sys.SubscribeSync(inbox)
	defer func() { _ = answers.Unsubscribe() }()
	err = errors.Join(err, c.sys.PublishRequest("$SYS.REQ.SERVER.PING.JSZ", inbox, question))
	for err == nil && (len(s.peers) == 0 || len(s.servers) < len(s.peers)) {
		message, err := answers.NextMsg(patience)
		if err != nil {
			break // the others do not run
		}
		var answer server.ServerAPIJszResponse
		if err := json.Unmarshal(message.Data, &answer); err == nil && answer.Data != nil && answer.Data.Meta != nil {
			s.add(answer.Server.Name, answer.Data)
		}
	}
	return s
}

func (s *state) add(name string, answer *server.JSInfo) {
	s.servers[name] = answer.Streams
	if answer.Meta.Leader == name {
		s.groups[meta] = &server.ClusterInfo{Leader: name, Replicas: answer.Meta.Replicas}
		s.peers = members(s.groups[meta])
	}
	for _, account := range answer.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Cluster != nil {
				s.groups[stream.Name] = stream.Cluster
			}
		}
	}
}

// members are those of a group, the leader first.
func members(group *server.ClusterInfo) []string {
	names := []string{group.Leader}
	for _, replica := range group.Replicas {
		names = append(names, replica.Name)
	}
	return names
}

// trouble is NotYet with the reason while a server is not up to date or a group has no leader. The given servers do not count.
func (s *state) trouble(except ...string) error {
	if s.groups[meta] == nil {
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
	for _, name := range s.peers { // all are members of one group more
		if found, answers := s.servers[name]; !slices.Contains(except, name) && (!answers || found+1 != streams[name]) {
			return coordination.NotYet("%s does not run, or not all of its streams have a leader", name)
		}
	}
	return nil
}

// leads returns of how many groups a server is the leader, or -1 if it does not run.
func (s *state) leads(name string) (n int) {
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

// moveLeaders moves what a server leads to other members of the groups: to the one of the given servers that leads the fewest groups,
// or if none of them is a member, to one that NATS chooses. It returns how many moves it has asked for.
func (c cluster) moveLeaders(ctx context.Context, s *state, from string, to []string) (moved int, err error) {
	for name, group := range s.groups {
		if group.Leader != from {
			continue
		}
		var request server.JSApiLeaderStepdownRequest
		slices.SortFunc(to, func(a, b string) int { return s.leads(a) - s.leads(b) })
		if i := slices.IndexFunc(to, func(s string) bool { return slices.Contains(members(group)[1:], s) }); i >= 0 {
			group.Leader = to[i] // for the next one's choice
			request.Placement = &server.Placement{Preferred: to[i]}
		}
		connection, subject := c.app, fmt.Sprintf(server.JSApiStreamLeaderStepDownT, name)
		if name == meta {
			connection, subject = c.sys, server.JSApiLeaderStepDown
		}
		if err := call(ctx, connection, subject, request); err != nil {
			return moved, fmt.Errorf("moving the leader of %s away from %s: %w", name, from, err)
		}
		moved++
	}
	return moved, nil
}

// call asks JetStream for something.
func call(ctx context.Context, connection *nats.Conn, subject string, request any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	content, _ := json.Marshal(request)
	message, err := connection.RequestWithContext(ctx, subject, content)
	if err != nil {
		return err
	}
	var answer server.ApiResponse
	return errors.Join(json.Unmarshal(message.Data, &answer), answer.ToError())
}
