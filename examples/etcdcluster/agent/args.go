package agent

import (
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	validID  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	validArg = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)
)

// checkID keeps what becomes the name of a folder from being a path.
func checkID(id string) error {
	if !validID.MatchString(id) {
		return refuse(ReasonInvalid, "%.80q is no member's ID: use up to 63 lower-case letters, digits and hyphens", id)
	}
	return nil
}

// reserved are the arguments that the agent sets itself, or that would take the member out of its hands.
var reserved = []string{"name", "data-dir", "wal-dir", "config-file", "force-new-cluster"}

// reservedPrefixes are what more of them begin with.
var reservedPrefixes = []string{"initial-", "listen-", "advertise-", "discovery", "peer-", "experimental-peer-"}

func checkArgs(args map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !validArg.MatchString(name) {
			return refuse(ReasonInvalid, "%.80q is no flag of etcd: write it without dashes before it, such as heartbeat-interval", name)
		}
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.Contains(reserved, name) || slices.ContainsFunc(reservedPrefixes, begins) {
			return refuse(ReasonInvalid, "the agent sets the argument %s itself: leave it out", name)
		}
	}
	return nil
}

// sameArgs takes no arguments and an empty list of them for the same.
func sameArgs(a, b map[string]string) bool { return maps.Equal(a, b) }

// commandLine is what a member's etcd is started with.
func commandLine(r record, dir string, peers PeerTLS) []string {
	line := []string{
		"--name=" + r.ID,
		"--data-dir=" + filepath.Join(dir, dataFolder),
		"--listen-client-urls=" + r.clientURL(),
		"--advertise-client-urls=" + r.clientURL(),
		"--listen-peer-urls=" + r.peerURL(),
		"--initial-advertise-peer-urls=" + r.peerURL(),
		"--initial-cluster=" + r.Launch.InitialCluster,
		"--initial-cluster-state=" + string(r.Launch.State),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Applied)) {
		line = append(line, "--"+name+"="+r.Applied[name])
	}
	// Also a member that is dialed without TLS may have to dial others with it.
	return append(line, peers.flags()...)
}

func checkLaunch(launch Launch) error {
	if launch.State != ClusterNew && launch.State != ClusterExisting {
		return refuse(ReasonInvalid, "the state %.80q is neither %s nor %s", launch.State, ClusterNew, ClusterExisting)
	}
	for member := range strings.SplitSeq(launch.InitialCluster, ",") {
		name, address, found := strings.Cut(member, "=")
		if parsed, err := url.Parse(address); !found || name == "" || err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return refuse(ReasonInvalid, "the initial cluster has %.80q, want name=http://host:port or name=https://host:port", member)
		}
	}
	return nil
}
