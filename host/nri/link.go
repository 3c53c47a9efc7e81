package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

const (
	// pluginName and pluginIndex are what the runtime calls this plugin. Of the plugins that
	// it asks it is among the last: what others have chosen is seen, and left to them. Two
	// that set the same would keep the container from starting.
	pluginName, pluginIndex = "homenode", "95"
	// connectWithin bounds a try. The runtime gives plugins 5 s to register by default.
	connectWithin = 10 * time.Second
	// A connection that is lost is tried again at once, then ever later.
	retryFirst, retryMost = 100 * time.Millisecond, 5 * time.Second
	// lasting is how long a connection must have stood not to count as a failure.
	lasting = 5 * time.Second
)

// events is what a runtime with that version of NRI is asked for. It refuses a plugin that asks
// for what it does not know. Those that name their version (NRI 0.12 and later) know all these.
func events(version string) (mask api.EventMask) {
	mask.Set(api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
		api.Event_CREATE_CONTAINER,
		api.Event_POST_START_CONTAINER, api.Event_UPDATE_CONTAINER, api.Event_STOP_CONTAINER,
		api.Event_REMOVE_CONTAINER)
	if version != "" {
		mask.Set(api.Event_UPDATE_POD_SANDBOX)
	}
	return mask
}

// takesUnasked reports whether a runtime may be told what it has not asked for. With NRI before
// 0.12.1 containerd may then stand still for good: an update takes its two locks in the other
// order than the making of a container does (https://github.com/containerd/containerd/issues/13733).
// Of CRI-O no version is known to have this mended (https://github.com/cri-o/cri-o/pull/9835).
func takesUnasked(runtime, version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch); n != 3 || runtime != "containerd" {
		return false
	}
	return major > 0 || minor > 12 || (minor == 12 && patch >= 1)
}

// link is a connection to a runtime.
type link struct {
	runtime api.RuntimeService
	done    chan struct{} // closed when it is lost
}

func (l *link) update(ctx context.Context, updates []*api.ContainerUpdate) (failed []string, err error) {
	r, err := l.runtime.UpdateContainers(ctx, &api.UpdateContainersRequest{Update: updates})
	for _, u := range r.GetFailed() {
		failed = append(failed, u.GetContainerId())
	}
	return failed, err
}

// service answers the runtime: package stub tells requests apart, also those of older
// runtimes, and is asked nothing else. Its own connecting waits for ever on a runtime that
// takes a plugin and then goes away.
type service struct {
	api.PluginService
	configured chan<- struct{}
	p          *Plugin
}

func (s service) Configure(ctx context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	_, err := s.p.Configure(ctx, r.GetConfig(), r.GetRuntimeName(), r.GetRuntimeVersion())
	s.p.mu.Lock()
	s.p.unasked = takesUnasked(r.GetRuntimeName(), r.GetNRIVersion())
	s.p.waits = time.Duration(max(0, min(r.GetRequestTimeout(), time.Hour.Milliseconds()))) * time.Millisecond
	s.p.mu.Unlock()
	select {
	case s.configured <- struct{}{}:
	default:
	}
	return &api.ConfigureResponse{Events: int32(events(r.GetNRIVersion()))}, err
}

// silent is where package stub logs.
type silent struct{}

func (silent) Debugf(context.Context, string, ...interface{}) {}
func (silent) Infof(context.Context, string, ...interface{})  {}
func (silent) Warnf(context.Context, string, ...interface{})  {}
func (silent) Errorf(context.Context, string, ...interface{}) {}

// Run keeps a connection to the runtime until ctx ends, whenever its socket is there.
func (p *Plugin) Run(ctx context.Context) {
	wait := retryFirst
	for ctx.Err() == nil {
		began := time.Now()
		err := p.serve(ctx)
		if errors.Is(err, fs.ErrNotExist) { // a host without it is in order
			err = nil
		}
		p.mu.Lock()
		changed := fmt.Sprint(p.last) != fmt.Sprint(err)
		p.last = err
		p.mu.Unlock()
		if changed && err != nil {
			p.o.Log.Warn("not connected to the container runtime", "err", err)
		}
		if wait = min(2*wait, retryMost); time.Since(began) >= lasting {
			wait = retryFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// serve connects and answers until the connection is lost, which is no error.
func (p *Plugin) serve(ctx context.Context) error {
	if _, err := os.Stat(p.o.Socket); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: connectWithin}).DialContext(ctx, "unix", p.o.Socket)
	if err != nil {
		return err
	}
	dispatch, err := stub.New(p, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex),
		stub.WithLogger(silent{}))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	listener, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		return err
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	configured := make(chan struct{}, 1)
	api.RegisterPluginService(server, service{dispatch.(api.PluginService), configured, p})
	go server.Serve(ctx, listener)
	out, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return err
	}
	l := &link{done: make(chan struct{})}
	client := ttrpc.NewClient(out, ttrpc.WithOnClose(func() { close(l.done) }))
	defer client.Close()
	l.runtime = api.NewRuntimeClient(client)
	late, stop := context.WithTimeout(ctx, connectWithin)
	defer stop()
	if _, err := l.runtime.RegisterPlugin(late,
		&api.RegisterPluginRequest{PluginName: pluginName, PluginIdx: pluginIndex,
			NRIVersion: dispatch.PluginNRIVersion()}); err != nil {
		return fmt.Errorf("%s: register: %w", p.o.Socket, err)
	}
	select {
	case <-configured:
	case <-l.done:
		return fmt.Errorf("%s: the runtime has closed the connection", p.o.Socket)
	case <-late.Done():
		return fmt.Errorf("%s: the runtime took the plugin, and then asked nothing for %v", p.o.Socket, connectWithin)
	}
	p.mu.Lock()
	p.runtime, p.last = l, nil
	p.o.Log.Info("connected to the container runtime", "runtime", p.name, "socket", p.o.Socket)
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-l.done:
	}
	p.mu.Lock()
	p.runtime, p.synced = nil, false
	p.mu.Unlock()
	return nil
}
