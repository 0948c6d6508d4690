package fakenode

import (
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostIP is where the node would be reached.
const hostIP = "127.0.0.1"

// object is the node when it registers.
func object(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name,
		corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
}

// nodeStatus is that of a healthy node on which nothing is scarce.
func nodeStatus(name, version string, now metav1.Time) corev1.NodeStatus {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10k"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		// A kubelet's default is 110, and the scheduler heeds it.
		corev1.ResourcePods: resource.MustParse("10k"),
	}
	return corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: hostIP}},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, KubeletVersion: version,
			OSImage: "pretended by ringmaster up", ContainerRuntimeVersion: "none://0",
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
		Reason: "Pretended", Message: "this node runs nothing, and so wants for nothing",
	}
}

// podStatus is that of a pod whose containers are as the process says.
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
	for kind, holds := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodReadyToStartContainers: corev1.ConditionTrue, corev1.PodInitialized: corev1.ConditionTrue,
		corev1.ContainersReady: ready, corev1.PodReady: ready,
	} {
		status.Conditions = withCondition(status.Conditions, kind, holds, now)
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

// shows tells whether everybody can see how the process of a pod is.
func shows(pod *corev1.Pod, process Process) bool {
	if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	container := pod.Status.ContainerStatuses[0]
	return container.RestartCount == process.Restarts && container.Ready == process.Running &&
		(container.State.Waiting == nil || container.State.Waiting.Reason == process.Reason)
}

// ended tells whether the pod is done for good, which no kubelet takes back.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
