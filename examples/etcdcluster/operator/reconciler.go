// Package operator manages the members that one region has of an etcd cluster, in agreement with the operators of other regions:
// region implements the coordination.System for pkg/coordination.
//
// It guarantees that one member at a time is disturbed, and only while the system keeps its quorum without it,
// which is checked again right before the disturbance; that the leader is last, after the lead was moved; and
// that a region which was part of a system never starts another one.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// retryAfter is the delay after a failure, and resync the period in which members are observed: they can die without a signal.
	retryAfter, resync = 200 * time.Millisecond, 2 * time.Second
	// StoreTimeout limits each request to the store: some of them go to a member that hangs.
	StoreTimeout = 3 * time.Second
	// Finalizer keeps an EtcdCluster until its operator has left the coordination. Otherwise the others would wait for it.
	Finalizer = "etcdcluster.timebertt.dev/coordination"
)

// Options configure the operator of one region.
type Options struct {
	Namespace string        // namespace of the region: EtcdClusters of other namespaces are ignored
	Name      string        // of the operator; defaults to the namespace
	Agent     string        // URL of the region's agent
	Session   time.Duration // how long this operator counts as alive after it has died
	Store     kv.Store      // the shared store; defaults to the managed system itself
	Manager   ctrl.Options
	// Dial connects to the members by host and port. Clock and Dial have defaults.
	Dial  func(ctx context.Context, address string) (net.Conn, error)
	Clock clock.Clock
}

type reconciler struct {
	client.Client
	agent        *agent.Client
	events       events.EventRecorder
	options      Options
	participants controller.Participants[*participant]
}

// participant has the connections for an EtcdCluster. They are created as soon as an address of the system is known.
type participant struct {
	*coordination.Coordinator
	system systemClient
	store  kv.Store
}

// Close also closes the connection to the system.
func (p *participant) Close(ctx context.Context) error {
	return errors.Join(p.Coordinator.Close(ctx), p.system.Close())
}

// systemClient is the interface of system.System.
type systemClient interface {
	clientv3.Cluster
	State(ctx context.Context, seeds ...string) (*system.State, error)
	MoveLeader(ctx context.Context, leader, to uint64) error
	Close() error
}

// Run manages the EtcdClusters of a namespace until the context ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	o.Manager.Scheme, o.Manager.Cache.DefaultNamespaces = scheme, map[string]cache.Config{o.Namespace: {}}
	agent, err := agent.NewClient(o.Agent)
	mgr, mgrErr := ctrl.NewManager(config, o.Manager)
	if err := errors.Join(err, mgrErr, etcdclusterv1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	r := &reconciler{Client: mgr.GetClient(), agent: agent, events: mgr.GetEventRecorder("etcdcluster"), options: o}
	r.participants.Client, r.participants.Finalizer = r.Client, Finalizer
	defer r.participants.Close(context.WithoutCancel(ctx))
	err = errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), ctrl.NewControllerManagedBy(mgr).
		For(&etcdclusterv1alpha1.EtcdCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.participants.Source()).
		WithOptions(ctrlcontroller.Options{ // nothing signals that an agent or a member is available again
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryAfter/4, resync),
		}).
		Complete(r))
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return mgr.Start(ctx)
}

// Reconcile reconciles an EtcdCluster.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &etcdclusterv1alpha1.EtcdCluster{}
	if err := r.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.leave(ctx, cluster)
	}
	older, err := r.olderCluster(ctx, cluster)
	if err == nil && older == "" {
		err = r.participants.AddFinalizer(ctx, cluster)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	before, result := cluster.DeepCopy(), &coordination.Result{RequeueAfter: resync}
	region := &region{agent: r.agent, cluster: cluster, reporter: controller.NewReporter(ctx, r.events, cluster)}
	if older != "" {
		region.set(condition(etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonSystemTaken,
			"The older EtcdCluster %s already manages the members of this region in the system %s: delete one of the two.", older, cluster.SystemName()))
	} else {
		result, err = r.coordinate(ctx, region)
		region.report(result, err)
	}
	if !equality.Semantic.DeepEqual(before.Status, cluster.Status) { // no precondition: only this operator writes the status
		err = errors.Join(err, client.IgnoreNotFound(r.Status().Patch(ctx, cluster, client.MergeFrom(before))))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: min(result.RequeueAfter, resync)}, nil
}

// coordinate reconciles the coordination of the region. Before a system exists, it only prepares members.
func (r *reconciler) coordinate(ctx context.Context, region *region) (result *coordination.Result, err error) {
	result = &coordination.Result{RequeueAfter: retryAfter, View: &coordination.View{}}
	region.participant, err = r.participant(region.cluster)
	if err == nil && region.Coordinator != nil {
		result, err = region.Reconcile(ctx, region.settings(), region)
		region.storeReachable = region.view != nil
		region.reporter.Events(result)
	}
	if region.view == nil {
		err = errors.Join(err, region.observe(ctx, result.View))
	}
	return result, errors.Join(err, region.prepareErr)
}

// olderCluster returns the name of an older EtcdCluster of the namespace for the same system: two would manage the same members.
func (r *reconciler) olderCluster(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster) (string, error) {
	all := &etcdclusterv1alpha1.EtcdClusterList{}
	err := r.List(ctx, all, client.InNamespace(cluster.Namespace))
	for i := range all.Items {
		other := &all.Items[i]
		age := cmp.Or(other.CreationTimestamp.Compare(cluster.CreationTimestamp.Time), strings.Compare(other.Name, cluster.Name))
		if other.SystemName() == cluster.SystemName() && age < 0 {
			return other.Name, nil
		}
	}
	return "", err
}

// participant returns the connections for an EtcdCluster. They are empty before an address of the system is known.
func (r *reconciler) participant(cluster *etcdclusterv1alpha1.EtcdCluster) (*participant, error) {
	key, seeds := client.ObjectKeyFromObject(cluster), cluster.Addresses()
	if p, found := r.participants.Get(key); found || len(seeds) == 0 {
		return cmp.Or(p, &participant{}), nil
	}
	var options []grpc.DialOption
	if r.options.Dial != nil {
		options = append(options, grpc.WithContextDialer(r.options.Dial))
	}
	connection, err := system.Dial(seeds, options...)
	if err != nil {
		return &participant{}, err
	}
	connection.Cluster, _ = strconv.ParseUint(cluster.Status.ClusterID, 16, 64) // 0 if it is unknown
	p := &participant{system: connection, store: r.options.Store}
	if p.store == nil {
		p.store = etcdstore.New(connection.Client, etcdstore.Options{Timeout: StoreTimeout})
	}
	p.Coordinator, err = coordination.New(coordination.Options{
		Store: p.store, System: cluster.SystemName(), Name: cmp.Or(r.options.Name, r.options.Namespace), SessionDuration: r.options.Session,
		Actions: actions, Clock: r.options.Clock,
	})
	if err == nil {
		err = r.participants.Add(key, p)
	}
	if err != nil {
		return &participant{}, errors.Join(err, connection.Close())
	}
	return p, nil
}

// leave removes the entries of a region, also if its EtcdCluster was deleted while no operator ran. The members keep running with
// their data.
func (r *reconciler) leave(ctx context.Context, cluster *etcdclusterv1alpha1.EtcdCluster) (err error) {
	if !controllerutil.ContainsFinalizer(cluster, Finalizer) {
		return nil
	}
	region := &region{agent: r.agent, cluster: cluster, view: &coordination.View{}}
	if region.participant, err = r.participant(cluster); err != nil {
		return err
	}
	switch {
	case region.Coordinator == nil && cluster.Status.ClusterID != "":
		return errors.New("leaving the coordination: no address of the system is known; if the system is permanently gone, remove the finalizer")
	case region.Coordinator != nil:
		// An accepted order is carried out first.
		_ = region.listProcesses(ctx)
		region.state, region.stateErr = region.system.State(ctx, cluster.Addresses()...)
	}
	return r.participants.Leave(ctx, cluster, region)
}

// report writes the observed state and the outcome of the coordination to the status.
func (r *region) report(result *coordination.Result, err error) {
	status := &r.cluster.Status
	status.ObservedGeneration, status.Waiting = r.cluster.Generation, controller.Truncate(result.WaitSummary(), 1024)
	if errors.Is(err, errAgentUnreachable) { // nothing else was observed
		r.set(condition(etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonAgentUnreachable, "%s", oneLine(err)))
		status.Ready = 0
		for i := range status.Members {
			status.Members[i].Healthy = false
		}
		return
	}
	if r.state != nil {
		status.ClusterID, status.Endpoints = strconv.FormatUint(r.state.Cluster, 16), nil
		for _, m := range r.state.Members { // a region that loses all of its members finds the system there
			if _, own := r.processes[m.Name]; !own && len(m.ClientURLs) > 0 {
				status.Endpoints = append(status.Endpoints, m.ClientURLs[0])
			}
		}
		status.Endpoints = status.Endpoints[:min(len(status.Endpoints), 16)]
	}
	last := status.Members
	status.Members, status.Ready = nil, 0
	for _, id := range slices.Sorted(maps.Keys(r.processes)) {
		m := r.member(r.processes[id], last)
		if status.Members = append(status.Members, m); m.Healthy && m.Phase == etcdclusterv1alpha1.MemberVoter {
			status.Ready++
		}
	}
	r.set(r.readyCondition())
	r.set(r.coordinatedCondition(result, err))
	r.set(r.progressingCondition())
}

// member returns the status of a member. Unknown fields keep their last values.
func (r *region) member(p agent.Member, last []etcdclusterv1alpha1.MemberStatus) etcdclusterv1alpha1.MemberStatus {
	status := etcdclusterv1alpha1.MemberStatus{ID: etcdclusterv1alpha1.MemberID(p.ID), Phase: etcdclusterv1alpha1.MemberPrepared}
	if i := slices.IndexFunc(last, func(m etcdclusterv1alpha1.MemberStatus) bool { return m.ID == status.ID }); i >= 0 {
		status.MemberID, status.Phase = last[i].MemberID, last[i].Phase
	}
	status.ClientURL, status.PeerURL, status.PID = p.ClientURL, p.PeerURL, int64(p.PID)
	status.Problem = controller.Truncate(p.Problem, 512)
	status.ArgsCurrent, status.Removing = current(p, &r.cluster.Spec), r.needs.removing[p.ID]
	m, known := r.state.Known(p.ID, p.PeerURL)
	if known {
		status.MemberID, status.Version = strconv.FormatUint(m.ID, 16), m.Version
		status.Healthy, status.Leader = m.Healthy(), m.ID == r.state.Leader
	}
	switch {
	case known && !p.Running && p.Phase != agent.Prepared:
		status.Phase = etcdclusterv1alpha1.MemberStopped
	case known && m.Learner:
		status.Phase = etcdclusterv1alpha1.MemberLearner
	case known:
		status.Phase = etcdclusterv1alpha1.MemberVoter
	case r.state != nil && p.Phase != agent.Prepared:
		status.Phase = etcdclusterv1alpha1.MemberLeaving
	}
	return status
}

func (r *region) readyCondition() metav1.Condition {
	const kind = etcdclusterv1alpha1.ConditionReady
	ready, wanted, all := r.cluster.Status.Ready, r.cluster.Spec.Members, r.cluster.Status.Members
	var problems strings.Builder
	for _, m := range all {
		if m.Problem != "" {
			fmt.Fprintf(&problems, " %s: %s.", m.ID, m.Problem)
		}
	}
	switch {
	case errors.Is(r.stateErr, system.ErrOtherSystem):
		return condition(kind, false, etcdclusterv1alpha1.ReasonOtherSystem, "%s", oneLine(r.stateErr))
	case errors.Is(r.stateErr, system.ErrUnreachable):
		return condition(kind, false, etcdclusterv1alpha1.ReasonSystemUnreachable, "No member of the system answers.%s", &problems)
	case r.state == nil || !r.state.HasQuorum():
		return condition(kind, false, etcdclusterv1alpha1.ReasonNoQuorum, "Too few members of the system are healthy.%s", &problems)
	case ready < wanted:
		return condition(kind, false, etcdclusterv1alpha1.ReasonMembersMissing,
			"%d of %d members are healthy.%s", ready, wanted, &problems)
	case len(all) > int(wanted):
		return condition(kind, false, etcdclusterv1alpha1.ReasonTooManyMembers, "There are %d members instead of %d.", len(all), wanted)
	}
	return condition(kind, true, etcdclusterv1alpha1.ReasonMembersReady, "All members of this region are healthy.")
}

func (r *region) coordinatedCondition(result *coordination.Result, err error) metav1.Condition {
	const kind = coordination.ConditionCoordinated
	var regions []string
	for _, prefix := range r.cluster.Spec.Regions {
		if !slices.Contains(r.cluster.Spec.LostRegions, prefix) {
			regions = append(regions, string(prefix))
		}
	}
	refused := &agent.RefusedError{}
	switch {
	case errors.As(err, &refused):
		return condition(kind, false, etcdclusterv1alpha1.ReasonAgentRefused, "%s", oneLine(err))
	case r.Coordinator == nil:
		return condition(kind, false, etcdclusterv1alpha1.ReasonStarting, "No address of the system is known yet.")
	case err != nil && (!r.storeReachable && !errors.Is(err, coordination.ErrPrefixTaken) || errors.Is(err, context.DeadlineExceeded)):
		return condition(kind, false, etcdclusterv1alpha1.ReasonStoreUnreachable, "%s", oneLine(err))
	}
	return r.Condition(result, err, regions...)
}

func (r *region) progressingCondition() metav1.Condition {
	const kind = etcdclusterv1alpha1.ConditionProgressing
	needs := slices.Clone(r.needs.create)
	for _, need := range r.needs.pending {
		needs = append(needs, fmt.Sprintf("%s of %s", need.Action, need.Member))
	}
	switch {
	case r.state == nil:
		return condition(kind, true, etcdclusterv1alpha1.ReasonStarting, "The system does not answer.")
	case len(needs) > 0:
		return condition(kind, true, etcdclusterv1alpha1.ReasonMembersPending, "Pending: %s.", strings.Join(needs, ", "))
	}
	return condition(kind, false, etcdclusterv1alpha1.ReasonUpToDate, "All members match the spec.")
}

func condition(kind string, isTrue bool, reason, format string, args ...any) metav1.Condition {
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[isTrue]
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// set sets a condition. A new reason of a condition that is false is an event too; Progressing is false when
// nothing is pending.
func (r *region) set(c metav1.Condition) {
	c.ObservedGeneration = r.cluster.Generation
	if c.Type == etcdclusterv1alpha1.ConditionProgressing {
		apimeta.SetStatusCondition(&r.cluster.Status.Conditions, c)
		return
	}
	r.reporter.SetCondition(&r.cluster.Status.Conditions, c)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
