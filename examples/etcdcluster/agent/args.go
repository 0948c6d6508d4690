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

// checkID refuses IDs that are not valid names of folders.
func checkID(id string) error {
	if !validID.MatchString(id) {
		return refuse(ReasonInvalid, "invalid member ID %.80q: use up to 63 lower-case letters, digits and hyphens", id)
	}
	return nil
}

// reserved are the arguments that the agent sets itself, or that would break its control of the member.
var reserved = []string{"name", "data-dir", "wal-dir", "config-file", "force-new-cluster"}

// reservedPrefixes are the prefixes of further reserved arguments.
var reservedPrefixes = []string{"initial-", "listen-", "advertise-", "discovery", "peer-", "experimental-peer-"}

func checkArgs(args map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !validArg.MatchString(name) {
			return refuse(ReasonInvalid, "invalid argument %.80q: use a flag of etcd without the leading dashes, such as heartbeat-interval", name)
		}
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.Contains(reserved, name) || slices.ContainsFunc(reservedPrefixes, begins) {
			return refuse(ReasonInvalid, "the argument %s is set by the agent: remove it", name)
		}
	}
	return nil
}

// sameArgs compares arguments. A nil map equals an empty one.
func sameArgs(a, b map[string]string) bool { return maps.Equal(a, b) }

// commandLine returns the arguments of a member's etcd.
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
	// A member without TLS on its own address may have to dial others with TLS.
	return append(line, peers.flags()...)
}

func checkLaunch(launch Launch) error {
	if launch.State != ClusterNew && launch.State != ClusterExisting {
		return refuse(ReasonInvalid, "invalid state %.80q: use %s or %s", launch.State, ClusterNew, ClusterExisting)
	}
	for member := range strings.SplitSeq(launch.InitialCluster, ",") {
		name, address, found := strings.Cut(member, "=")
		if parsed, err := url.Parse(address); !found || name == "" || err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
			return refuse(ReasonInvalid, "invalid initial cluster member %.80q: use name=http://host:port or name=https://host:port", member)
		}
	}
	return nil
}
