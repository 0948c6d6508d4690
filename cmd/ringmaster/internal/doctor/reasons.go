package doctor

// Reason identifies a kind of finding. Programs may rely on it.
type Reason string

// The reasons. Each is planted on a real API server by a test.
const (
	// NotReadable: the user may not read something, or the API server did not answer.
	NotReadable Reason = "NotReadable"

	ServerTooOld Reason = "ServerTooOld"

	CRDMissing          Reason = "CRDMissing"
	CRDNotEstablished   Reason = "CRDNotEstablished"
	CRDVersionNotServed Reason = "CRDVersionNotServed"
	// CRDOutdated: the installed schema lacks fields that this program knows.
	CRDOutdated Reason = "CRDOutdated"
	// CRDNewer: the installed schema has fields that this program does not know.
	CRDNewer Reason = "CRDNewer"

	SharderMissing             Reason = "SharderMissing"
	SharderNotLeading          Reason = "SharderNotLeading"
	SharderImagesDiffer        Reason = "SharderImagesDiffer"
	InProcessSharderNotLeading Reason = "InProcessSharderNotLeading"
	// TwoSharders: the external sharder and an in-process sharder are both active for a ring.
	TwoSharders Reason = "TwoSharders"
	// UnusedControllerRing: a ring has an in-process sharder and a ControllerRing, but no external sharder.
	UnusedControllerRing Reason = "UnusedControllerRing"

	SharderAccountUnknown  Reason = "SharderAccountUnknown"
	SharderLacksPermission Reason = "SharderLacksPermission"
	ShardAccountUnknown    Reason = "ShardAccountUnknown"
	ShardLacksPermission   Reason = "ShardLacksPermission"

	WebhookMissing        Reason = "WebhookMissing"
	WebhookStale          Reason = "WebhookStale"
	WebhookServiceMissing Reason = "WebhookServiceMissing"
	WebhookNotReady       Reason = "WebhookNotReady"
	// WebhookUnreachable: a dry-run create got no shard label.
	WebhookUnreachable Reason = "WebhookUnreachable"
	// WebhookNotProbed: the dry-run create failed, so it is not known whether the webhook can be reached.
	WebhookNotProbed      Reason = "WebhookNotProbed"
	CABundleInvalid       Reason = "CABundleInvalid"
	CAExpired             Reason = "CAExpired"
	CAExpiring            Reason = "CAExpiring"
	CertificateExpired    Reason = "CertificateExpired"
	CertificateExpiring   Reason = "CertificateExpiring"
	CertificateNotTrusted Reason = "CertificateNotTrusted"

	RingNotObserved    Reason = "RingNotObserved"
	RingHasNoShards    Reason = "RingHasNoShards"
	RingHasNoResources Reason = "RingHasNoResources"
	ConditionNotTrue   Reason = "ConditionNotTrue"

	ResourceNotServed      Reason = "ResourceNotServed"
	SelectorMatchesNothing Reason = "SelectorMatchesNothing"

	// KindNotWatched: the ring lists a resource that a shard does not watch.
	KindNotWatched Reason = "KindNotWatched"
	// KindNotListed: a shard watches a resource that the ring does not list.
	KindNotListed Reason = "KindNotListed"

	LeaseWithoutRing      Reason = "LeaseWithoutRing"
	LeaseNameTooLong      Reason = "LeaseNameTooLong"
	LeaseNamespaceRefused Reason = "LeaseNamespaceRefused"
	LeaseNameTaken        Reason = "LeaseNameTaken"
	LeaseDurationTooLong  Reason = "LeaseDurationTooLong"
	RingFull              Reason = "RingFull"
	ShardSilent           Reason = "ShardSilent"
	ShardDead             Reason = "ShardDead"
	LeaseNotDeleted       Reason = "LeaseNotDeleted"

	ClockAhead Reason = "ClockAhead"
)

// Reasons are all reasons.
var Reasons = []Reason{
	NotReadable, ServerTooOld,
	CRDMissing, CRDNotEstablished, CRDVersionNotServed, CRDOutdated, CRDNewer,
	SharderMissing, SharderNotLeading, SharderImagesDiffer, InProcessSharderNotLeading, TwoSharders, UnusedControllerRing,
	SharderAccountUnknown, SharderLacksPermission, ShardAccountUnknown, ShardLacksPermission,
	WebhookMissing, WebhookStale, WebhookServiceMissing, WebhookNotReady, WebhookUnreachable, WebhookNotProbed,
	CABundleInvalid, CAExpired, CAExpiring, CertificateExpired, CertificateExpiring, CertificateNotTrusted,
	RingNotObserved, RingHasNoShards, RingHasNoResources, ConditionNotTrue,
	ResourceNotServed, SelectorMatchesNothing, KindNotWatched, KindNotListed,
	LeaseWithoutRing, LeaseNameTooLong, LeaseNamespaceRefused, LeaseNameTaken, LeaseDurationTooLong, RingFull,
	ShardSilent, ShardDead, LeaseNotDeleted, ClockAhead,
}
