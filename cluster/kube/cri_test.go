package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeCRI answers the kubelet as a container runtime does, and runs nothing.
type runtimeCRI struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer

	mu         sync.Mutex
	n          int
	pods       map[string]*cri.PodSandboxStatus
	containers map[string]*cri.ContainerStatus
	pod        map[string]string // of a container
	created    []*cri.ContainerConfig
}

// serveCRI listens until stop.
func serveCRI(socket string) (r *runtimeCRI, stop func(), err error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, nil, err
	}
	r = &runtimeCRI{pods: map[string]*cri.PodSandboxStatus{}, containers: map[string]*cri.ContainerStatus{}, pod: map[string]string{}}
	s := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(s, r)
	cri.RegisterImageServiceServer(s, r)
	go s.Serve(l)
	return r, s.Stop, nil
}

// made is what was asked to be created in a pod of that name.
func (r *runtimeCRI) made(pod string) []*cri.ContainerConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*cri.ContainerConfig
	for _, c := range r.created {
		if c.Labels["io.kubernetes.pod.name"] == pod {
			out = append(out, c)
		}
	}
	return out
}

func (r *runtimeCRI) id() string { r.n++; return fmt.Sprintf("%064x", r.n) }

func (r *runtimeCRI) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{Version: "0.1.0", RuntimeName: "none", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (r *runtimeCRI) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true}}}}, nil
}

func (r *runtimeCRI) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS}}, nil
}

func (r *runtimeCRI) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

func (r *runtimeCRI) RunPodSandbox(_ context.Context, q *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, c := r.id(), q.Config
	r.pods[id] = &cri.PodSandboxStatus{Id: id, Metadata: c.Metadata, CreatedAt: time.Now().UnixNano(), Labels: c.Labels, Annotations: c.Annotations,
		Network: &cri.PodSandboxNetworkStatus{Ip: "10.88.0.2"}, // the kubelet kills a pod that has lost its namespaces
		Linux:   &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{Options: c.GetLinux().GetSecurityContext().GetNamespaceOptions()}}}
	return &cri.RunPodSandboxResponse{PodSandboxId: id}, nil
}

func (r *runtimeCRI) StopPodSandbox(_ context.Context, q *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pods[q.PodSandboxId]; p != nil {
		p.State = cri.PodSandboxState_SANDBOX_NOTREADY
	}
	return &cri.StopPodSandboxResponse{}, nil
}

func (r *runtimeCRI) RemovePodSandbox(_ context.Context, q *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, q.PodSandboxId)
	return &cri.RemovePodSandboxResponse{}, nil
}

func (r *runtimeCRI) PodSandboxStatus(_ context.Context, q *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pods[q.PodSandboxId]; p != nil {
		return &cri.PodSandboxStatusResponse{Status: p}, nil
	}
	return nil, fmt.Errorf("no pod %s", q.PodSandboxId)
}

func fits(want, have map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func (r *runtimeCRI) ListPodSandbox(_ context.Context, q *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, f := &cri.ListPodSandboxResponse{}, q.GetFilter()
	for id, p := range r.pods {
		if (f.GetId() == "" || f.Id == id) && (f.GetState() == nil || f.State.State == p.State) && fits(f.GetLabelSelector(), p.Labels) {
			out.Items = append(out.Items, &cri.PodSandbox{Id: id, Metadata: p.Metadata, State: p.State, CreatedAt: p.CreatedAt, Labels: p.Labels, Annotations: p.Annotations})
		}
	}
	return out, nil
}

func (r *runtimeCRI) CreateContainer(_ context.Context, q *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, c := r.id(), q.Config
	r.containers[id] = &cri.ContainerStatus{Id: id, Metadata: c.Metadata, CreatedAt: time.Now().UnixNano(), Image: c.Image, ImageRef: "sha256:1", Labels: c.Labels, Annotations: c.Annotations, LogPath: c.LogPath}
	r.pod[id] = q.PodSandboxId
	r.created = append(r.created, c)
	return &cri.CreateContainerResponse{ContainerId: id}, nil
}

func (r *runtimeCRI) set(id string, f func(*cri.ContainerStatus)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		return fmt.Errorf("no container %s", id)
	}
	f(c)
	return nil
}

func (r *runtimeCRI) StartContainer(_ context.Context, q *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	return &cri.StartContainerResponse{}, r.set(q.ContainerId, func(c *cri.ContainerStatus) {
		c.State, c.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	})
}

func (r *runtimeCRI) StopContainer(_ context.Context, q *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	return &cri.StopContainerResponse{}, r.set(q.ContainerId, func(c *cri.ContainerStatus) {
		c.State, c.FinishedAt = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano()
	})
}

func (r *runtimeCRI) RemoveContainer(_ context.Context, q *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, q.ContainerId)
	return &cri.RemoveContainerResponse{}, nil
}

func (r *runtimeCRI) UpdateContainerResources(context.Context, *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (r *runtimeCRI) ContainerStatus(_ context.Context, q *cri.ContainerStatusRequest) (out *cri.ContainerStatusResponse, err error) {
	err = r.set(q.ContainerId, func(c *cri.ContainerStatus) {
		now := cri.ContainerStatus{Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
			Image: c.Image, ImageRef: c.ImageRef, Labels: c.Labels, Annotations: c.Annotations, LogPath: c.LogPath}
		out = &cri.ContainerStatusResponse{Status: &now}
	})
	return out, err
}

func (r *runtimeCRI) ListContainers(_ context.Context, q *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out, f := &cri.ListContainersResponse{}, q.GetFilter()
	for id, c := range r.containers {
		if (f.GetId() == "" || f.Id == id) && (f.GetPodSandboxId() == "" || f.PodSandboxId == r.pod[id]) && (f.GetState() == nil || f.State.State == c.State) && fits(f.GetLabelSelector(), c.Labels) {
			out.Containers = append(out.Containers, &cri.Container{Id: id, PodSandboxId: r.pod[id], Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, Image: c.Image, ImageRef: c.ImageRef, Labels: c.Labels, Annotations: c.Annotations})
		}
	}
	return out, nil
}

func (r *runtimeCRI) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

func (r *runtimeCRI) ImageStatus(_ context.Context, q *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: "sha256:1", RepoTags: []string{q.Image.Image}, Size: 1, Spec: q.Image}}, nil
}

func (r *runtimeCRI) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	return &cri.ListImagesResponse{}, nil
}

func (r *runtimeCRI) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	u := []*cri.FilesystemUsage{{Timestamp: time.Now().UnixNano(), FsId: &cri.FilesystemIdentifier{Mountpoint: "/"}, UsedBytes: &cri.UInt64Value{Value: 1}, InodesUsed: &cri.UInt64Value{Value: 1}}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: u, ContainerFilesystems: u}, nil
}
