package fakenode

import (
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostIP is the address of the node.
const hostIP = "127.0.0.1"

// object returns the Node object to register.
func object(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name,
		corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
}

// nodeStatus returns the status of a healthy node with abundant resources.
func nodeStatus(name, version string, now metav1.Time) corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10k"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		// The default of a kubelet is 110, and the scheduler respects it.
		corev1.ResourcePods: resource.MustParse("10k"),
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: hostIP}},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KubeletVersion: version,
			OSImage: "fake node of ringmaster up", ContainerRuntimeVersion: "none://0",
		},
		Conditions: []corev1.NodeCondition{
			healthy(corev1.NodeReady, corev1.ConditionTrue, now),
			healthy(corev1.NodeMemoryPressure, corev1.ConditionFalse, now),
			healthy(corev1.NodeDiskPressure, corev1.ConditionFalse, now),
			healthy(corev1.NodePIDPressure, corev1.ConditionFalse, now),
		},
	}
}

func healthy(kind corev1.NodeConditionType, status corev1.ConditionStatus, now metav1.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: kind, Status: status, LastHeartbeatTime: now, LastTransitionTime: now,
		Reason: "FakeNode", Message: "this node runs no containers",
	}
}

// podStatus returns the status of a pod whose containers are in the state of the process.
func podStatus(pod *corev1.Pod, process Process, ip string, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = corev1.PodRunning
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	ready := corev1.ConditionFalse
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: process.Reason}}
	if process.Running {
		ready = corev1.ConditionTrue
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	}
	for kind, conditionStatus := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodReadyToStartContainers: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue,
		corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = withCondition(status.Conditions, kind, conditionStatus, now)
	}
	status.InitContainerStatuses = containers(pod.Spec.InitContainers, 0, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now},
	})
	status.ContainerStatuses = containers(pod.Spec.Containers, process.Restarts, state)
	return status
}

func containers(specs []corev1.Container, restarts int32, state corev1.ContainerState) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for i := range specs {
		all = append(all, corev1.ContainerStatus{
			Name: specs[i].Name, Image: specs[i].Image, ImageID: specs[i].Image, ContainerID: "none://" + specs[i].Name,
			Ready: state.Waiting == nil, Started: new(state.Running != nil), State: *state.DeepCopy(), RestartCount: restarts,
		})
	}
	return all
}

func withCondition(conditions []corev1.PodCondition, kind corev1.PodConditionType, status corev1.ConditionStatus, now metav1.Time) []corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			if conditions[i].Status != status {
				conditions[i].Status, conditions[i].LastTransitionTime = status, now
			}
			return conditions
		}
	}
	return append(conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: now})
}

// statusMatches returns true if the status of the pod already reflects the process.
func statusMatches(pod *corev1.Pod, process Process) bool {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	container := pod.Status.ContainerStatuses[0]
	return container.RestartCount == process.Restarts && container.Ready == process.Running &&
		(container.State.Waiting == nil || container.State.Waiting.Reason == process.Reason)
}

// terminated returns true if the pod is in a final phase.
func terminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
