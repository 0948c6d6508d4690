package doctor_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/doctor"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

// planting makes one thing wrong on a healthy ring.
type planting struct {
	plant   func(*fixture)
	options func(*fixture, *doctor.Options)
	status  doctor.Status
	// cause is part of the cause.
	cause string
	// also are findings that follow from it.
	also []doctor.Reason
}

const year = 365 * 24 * time.Hour

// renewedAgo makes a Lease of 15 seconds that was renewed some time ago.
func renewedAgo(ago time.Duration) func(*coordinationv1.Lease) {
	return func(lease *coordinationv1.Lease) {
		lease.Spec.LeaseDurationSeconds = new(int32(15))
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-ago)}
	}
}

// electInProcess creates the Lease of an in-process sharder.
func (f *fixture) electInProcess(holder string) {
	f.join(f.name+"-sharder", func(lease *coordinationv1.Lease) {
		lease.Labels = map[string]string{shardingv1alpha1.LabelSharder: f.name}
		lease.Annotations, lease.Spec.HolderIdentity = nil, &holder
	})
}

// runInProcess makes the ring one with an in-process sharder, without a ControllerRing.
func (f *fixture) runInProcess(holder string) {
	f.remove(f.ring())
	f.remove(f.webhook())
	f.remove(&coordinationv1.Lease{ObjectMeta: f.meta("sharder")})
	f.electInProcess(holder)
	ring := f.ring()
	ring.Spec.Resources = f.resources
	f.grant("operator", "in-process", roles.ForInstances(ring, types.NamespacedName{Namespace: f.Namespace, Name: "operator"})...)
}

var plantings = map[doctor.Reason]planting{
	doctor.SharderMissing: {
		plant:  func(f *fixture) { f.remove(&coordinationv1.Lease{ObjectMeta: f.meta("sharder")}) },
		status: doctor.Failure, cause: "has never run in the namespace",
	},
	doctor.SharderNotLeading: {
		plant:  func(f *fixture) { f.changeLease("sharder", renewedAgo(10*time.Minute)) },
		status: doctor.Failure, cause: "the leader sharder-0_1234 has not renewed the lease for 10m",
	},
	doctor.SharderImagesDiffer: {
		plant:  func(f *fixture) { f.addPod("sharder-1", "sharder", sharderLabels, "sharder:2") },
		status: doctor.Warning, cause: "sharder:1, sharder:2",
	},
	doctor.InProcessSharderNotLeading: {
		plant:  func(f *fixture) { f.runInProcess("") },
		status: doctor.Failure, cause: "no replica leads",
	},
	doctor.TwoSharders: {
		plant: func(f *fixture) {
			f.electInProcess("shard-0_1234")
			f.observe(func(status *shardingv1alpha1.ControllerRingStatus) {
				setCondition(status, shardingv1alpha1.ConditionSole, shardingv1alpha1.ReasonTwoSharders, "An in-process sharder is active.")
			})
		},
		status: doctor.Warning, cause: "assign the same objects",
	},
	doctor.UnusedControllerRing: {
		plant: func(f *fixture) {
			f.electInProcess("shard-0_1234")
			f.remove(&coordinationv1.Lease{ObjectMeta: f.meta("sharder")})
		},
		status: doctor.Warning, cause: "does not read the ControllerRing",
	},
	doctor.SharderAccountUnknown: {
		plant:  func(f *fixture) { f.remove(&corev1.Pod{ObjectMeta: f.meta("sharder-0")}) },
		status: doctor.Unknown, cause: "ServiceAccount of the sharder is unknown",
	},
	doctor.SharderLacksPermission: {
		plant:  func(f *fixture) { f.revoke("sharder", "ring") },
		status: doctor.Failure, cause: "may not list,patch configmaps; update,patch,delete leases.coordination.k8s.io; create,patch,delete mutatingwebhookconfigurations",
	},
	doctor.ShardAccountUnknown: {
		plant:  func(f *fixture) { f.remove(&corev1.Pod{ObjectMeta: f.meta("shard-0")}) },
		status: doctor.Unknown, cause: "no pod has the name of a Lease",
	},
	doctor.ShardLacksPermission: {
		plant:  func(f *fixture) { f.revoke("operator", "ring") },
		status: doctor.Failure, cause: "may not get,list,watch,patch configmaps; get,list,watch,patch secrets",
	},
	doctor.WebhookMissing: {
		plant:  func(f *fixture) { f.remove(f.webhook()) },
		status: doctor.Failure, cause: "not found",
	},
	doctor.WebhookStale: {
		plant: func(f *fixture) {
			configuration := f.webhook()
			configuration.Name, configuration.Labels = configuration.Name+"-gone", map[string]string{shardingv1alpha1.LabelControllerRing: f.name + "-gone"}
			f.create(configuration)
			f.t.Cleanup(func() { _ = f.Client.Delete(context.Background(), configuration) })
		},
		options: func(f *fixture, o *doctor.Options) { o.Rings = append(o.Rings, f.name+"-gone") },
		status:  doctor.Warning, cause: "does not exist",
	},
	doctor.WebhookServiceMissing: {
		plant: func(f *fixture) {
			f.changeWebhook(func(c *admissionregistrationv1.WebhookClientConfig) { c.Service.Port = new(int32(8443)) })
		},
		status: doctor.Failure, cause: "has no port 8443",
	},
	doctor.WebhookNotReady: {
		plant: func(f *fixture) {
			change(f, &discoveryv1.EndpointSlice{ObjectMeta: f.meta("sharder-1")}, func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Conditions.Ready = new(false)
			})
		},
		status: doctor.Failure, cause: "no ready endpoint",
	},
	doctor.WebhookUnreachable: {
		plant: func(f *fixture) {
			f.changeWebhook(func(c *admissionregistrationv1.WebhookClientConfig) {
				c.Service, c.URL = nil, new("https://127.0.0.1:1/")
			})
		},
		options: func(_ *fixture, o *doctor.Options) { o.Probe = true },
		status:  doctor.Failure, cause: "got no shard",
	},
	doctor.WebhookNotProbed: {
		plant: func(f *fixture) {
			ingresses := []shardingv1alpha1.RingResource{{GroupResource: shardingv1alpha1.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}}}
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) { spec.Resources = ingresses })
			f.changeLease("shard-0", func(lease *coordinationv1.Lease) {
				lease.Annotations[shardingv1alpha1.AnnotationResources] = f.encode(ingresses)
			})
			ring := f.ring()
			ring.Spec.Resources = ingresses
			f.grant("sharder", "ingresses", roles.ForSharder(ring)...)
			f.grant("operator", "ingresses", roles.ForShards(ring, types.NamespacedName{Namespace: f.Namespace, Name: "operator"})...)
		},
		options: func(_ *fixture, o *doctor.Options) { o.Probe = true },
		status:  doctor.Unknown, cause: "could not be probed: a dry-run create of ingresses/",
	},
	doctor.CABundleInvalid: {
		plant: func(f *fixture) {
			f.changeWebhook(func(c *admissionregistrationv1.WebhookClientConfig) { c.CABundle = nil })
		},
		status: doctor.Failure, cause: "no certificate found",
	},
	doctor.CAExpired: {
		plant:  func(f *fixture) { f.replaceWebhook(f.authority(-time.Hour), year) },
		status: doctor.Failure, cause: "expired on",
	},
	doctor.CAExpiring: {
		plant:  func(f *fixture) { f.replaceWebhook(f.authority(time.Hour), year) },
		status: doctor.Warning, cause: "was not renewed",
	},
	doctor.CertificateExpired: {
		plant:  func(f *fixture) { f.replaceWebhook(f.authority(year), -time.Hour) },
		status: doctor.Failure, cause: "the serving certificate expired on",
	},
	doctor.CertificateExpiring: {
		plant:  func(f *fixture) { f.replaceWebhook(f.authority(year), time.Hour) },
		status: doctor.Warning, cause: "was not renewed",
	},
	doctor.CertificateNotTrusted: {
		plant: func(f *fixture) {
			f.changeWebhook(func(c *admissionregistrationv1.WebhookClientConfig) { c.CABundle = f.authority(year).Certificate() })
		},
		status: doctor.Failure, cause: "do not trust the serving certificate",
	},
	doctor.RingNotObserved: {
		plant: func(f *fixture) {
			f.observe(func(status *shardingv1alpha1.ControllerRingStatus) { status.ObservedGeneration = 0 })
		},
		status: doctor.Failure, cause: "the ring has generation 1",
	},
	doctor.RingHasNoShards: {
		plant: func(f *fixture) {
			f.remove(&coordinationv1.Lease{ObjectMeta: f.meta("shard-0")})
			f.observe(func(status *shardingv1alpha1.ControllerRingStatus) {
				setCondition(status, shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonNoShards, "No shard is available.")
			})
		},
		status: doctor.Failure, cause: "no shard is available",
	},
	doctor.RingHasNoResources: {
		plant: func(f *fixture) {
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) { spec.Resources = nil })
		},
		status: doctor.Warning, cause: "spec.resources is empty", also: []doctor.Reason{doctor.KindNotListed},
	},
	doctor.ConditionNotTrue: {
		plant: func(f *fixture) {
			f.observe(func(status *shardingv1alpha1.ControllerRingStatus) {
				setCondition(status, shardingv1alpha1.ConditionDrained, shardingv1alpha1.ReasonDrainTimeout, "3 of 4 drains exceeded their timeout.")
			})
		},
		status: doctor.Failure, cause: "Drained is False (DrainTimeout): 3 of 4 drains",
	},
	doctor.ResourceNotServed: {
		plant: func(f *fixture) {
			thing := shardingv1alpha1.RingResource{GroupResource: shardingv1alpha1.GroupResource{Group: "example.com", Resource: "things"}}
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) { spec.Resources = append(spec.Resources, thing) })
			f.changeLease("shard-0", func(lease *coordinationv1.Lease) {
				lease.Annotations[shardingv1alpha1.AnnotationResources] = f.encode(append(slices.Clone(resources), thing))
			})
			ring := f.ring()
			ring.Spec.Resources = []shardingv1alpha1.RingResource{thing}
			f.grant("sharder", "thing", roles.ForSharder(ring)...)
			f.grant("operator", "thing", roles.ForShards(ring, types.NamespacedName{Namespace: f.Namespace, Name: "operator"})...)
		},
		status: doctor.Failure, cause: "does not serve the resource things.example.com",
	},
	doctor.SelectorMatchesNothing: {
		plant: func(f *fixture) {
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) {
				spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/absent": "true"}}
			})
		},
		status: doctor.Warning, cause: `"example.com/absent=true" selects none of the`,
	},
	doctor.KindNotWatched: {
		plant: func(f *fixture) {
			f.changeLease("shard-0", func(lease *coordinationv1.Lease) {
				lease.Annotations[shardingv1alpha1.AnnotationResources] = `[{"resource": "configmaps"}]`
			})
		},
		status: doctor.Failure, cause: "lists secrets controlled by configmaps, which shard shard-0 does not watch",
	},
	doctor.KindNotListed: {
		plant: func(f *fixture) {
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) { spec.Resources[0].ControlledResources = nil })
		},
		status: doctor.Failure, cause: "shard shard-0 watches secrets controlled by configmaps",
	},
	doctor.LeaseWithoutRing: {
		plant: func(f *fixture) {
			f.join("lost", func(lease *coordinationv1.Lease) {
				lease.Labels[shardingv1alpha1.LabelControllerRing] = f.name + "-absent"
			})
		},
		options: func(f *fixture, o *doctor.Options) { o.Rings = append(o.Rings, f.name+"-absent") },
		status:  doctor.Failure, cause: "neither a ControllerRing nor an in-process sharder",
	},
	doctor.LeaseNameTooLong: {
		plant:  func(f *fixture) { f.join(strings.Repeat("x", 64)) },
		status: doctor.Failure, cause: "64 characters",
	},
	doctor.LeaseNamespaceRefused: {
		plant: func(f *fixture) {
			f.changeSpec(func(spec *shardingv1alpha1.ControllerRingSpec) { spec.ShardNamespaces = []string{f.Namespace} })
			f.joinElsewhere("foreign")
		},
		status: doctor.Failure, cause: "only from the namespaces",
	},
	doctor.LeaseNameTaken: {
		plant: func(f *fixture) {
			time.Sleep(1100 * time.Millisecond) // the age of a Lease has whole seconds
			f.joinElsewhere("shard-0")
		},
		status: doctor.Failure, cause: "older shard of this name",
	},
	doctor.LeaseDurationTooLong: {
		plant: func(f *fixture) {
			f.join("milliseconds", func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = new(int32(15_000)) })
		},
		status: doctor.Failure, cause: "4h10m0s",
	},
	doctor.RingFull: {
		plant: func(f *fixture) {
			slots, group := make(chan struct{}, 20), sync.WaitGroup{}
			for i := range membership.MaxShards {
				slots <- struct{}{}
				group.Go(func() {
					f.join(fmt.Sprintf("more-%d", i))
					<-slots
				})
			}
			group.Wait()
		},
		options: func(f *fixture, o *doctor.Options) {
			o.ShardAccounts = []types.NamespacedName{{Namespace: f.Namespace, Name: "operator"}}
		},
		status: doctor.Failure, cause: "500 shards",
	},
	doctor.ShardSilent: {
		plant:  func(f *fixture) { f.join("silent", renewedAgo(2*time.Minute)) },
		status: doctor.Warning, cause: "has not renewed its lease for 2m",
	},
	doctor.ShardDead: {
		plant: func(f *fixture) {
			f.join("dead", renewedAgo(time.Minute), func(lease *coordinationv1.Lease) {
				lease.Spec.HolderIdentity = new(shardingv1alpha1.IdentityShardLeaseController)
			})
		},
		status: doctor.Warning, cause: "the sharder took it over",
	},
	doctor.LeaseNotDeleted: {
		plant: func(f *fixture) {
			f.join("left", renewedAgo(time.Hour), func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = new("") })
		},
		status: doctor.Warning, cause: "should have deleted its lease",
	},
	doctor.ClockAhead: {
		plant:  func(f *fixture) { f.join("future", renewedAgo(-10*time.Minute)) },
		status: doctor.Warning, cause: "ahead of the clock of the API server",
	},
}

// joinElsewhere creates the Lease of a shard in another namespace.
func (f *fixture) joinElsewhere(name string) {
	other := f.For(f.t)
	f.join(name, func(lease *coordinationv1.Lease) { lease.Namespace = other.Namespace })
}

func setCondition(status *shardingv1alpha1.ControllerRingStatus, kind, reason, message string) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			status.Conditions[i].Status, status.Conditions[i].Reason, status.Conditions[i].Message = metav1.ConditionFalse, reason, message
		}
	}
}

// TestPlantedFindings makes one thing wrong at a time.
func TestPlantedFindings(t *testing.T) {
	for _, reason := range doctor.Reasons {
		planted, found := plantings[reason]
		if !found {
			continue // clusterPlantings has it
		}
		t.Run(string(reason), func(t *testing.T) {
			f := setUp(t)
			planted.plant(f)
			options := f.options()
			if planted.options != nil {
				planted.options(f, &options)
			}
			report := f.expect(f.Config, options, append(slices.Clone(planted.also), reason)...)
			f.expectFinding(report, reason, planted.status, planted.cause)
		})
	}
}

// expectFinding compares a finding, which must have an object and a next step.
func (f *fixture) expectFinding(report *doctor.Report, reason doctor.Reason, status doctor.Status, cause string) {
	f.t.Helper()
	for _, finding := range findings(report) {
		if finding.Reason == reason {
			f.Expect(finding.Status).To(Equal(status))
			f.Expect(finding.Cause).To(ContainSubstring(cause))
			f.Expect(finding.Object).NotTo(BeEmpty())
			f.Expect(finding.Next).NotTo(BeEmpty())
			return
		}
	}
	f.t.Errorf("the finding %s is missing", reason)
}

// TestEachReasonIsPlanted fails if a finding was added without a planting.
func TestEachReasonIsPlanted(t *testing.T) {
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\t\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(constants) != len(doctor.Reasons) {
		t.Errorf("there are %d constants, but Reasons has %d", len(constants), len(doctor.Reasons))
	}
	for _, constant := range constants {
		reason := doctor.Reason(constant[1])
		_, ring := plantings[reason]
		_, cluster := clusterPlantings[reason]
		if ring == cluster || !slices.Contains(doctor.Reasons, reason) {
			t.Errorf("%s must be in Reasons, and in either plantings or clusterPlantings", reason)
		}
	}
}
