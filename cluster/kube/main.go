package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	release "github.com/homenode/homenode"
)

// version is set by the Makefile.
var version string

// What `go build` makes by itself is a development build.
func init() {
	if version == "" {
		version = release.Version() + "+dev"
	}
}

// options are the flags.
type options struct {
	node, socket, state, cdi, kubelet, kubeconfig, managers string
	nodeAllocatable, lists, batch, offline, evict, version  bool
}

// resources is the names under which the Node says how much CPU batch pods may have.
func (o *options) resources() (names []string) {
	if o.batch {
		names = append(names, batchCPU)
	}
	if o.offline {
		names = append(names, offlineCPU)
	}
	return names
}

func flags(args []string, out io.Writer) (o options, err error) {
	f := flag.NewFlagSet("homenode-kube", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of this node in Kubernetes; default $NODE_NAME")
	f.StringVar(&o.socket, "socket", "/run/homenode/homenode.sock", "socket of the homenode daemon")
	f.StringVar(&o.state, "state", "/var/lib/homenode-kube", "folder for what was prepared")
	f.StringVar(&o.cdi, "cdi", "/var/run/cdi", "folder in which the container runtime looks for CDI files")
	f.StringVar(&o.kubelet, "kubelet", "/var/lib/kubelet", "folder of the kubelet")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; default: as a pod does")
	f.StringVar(&o.managers, "kubelet-managers", refuse,
		"when the kubelet's CPU or memory manager is static, refuse claims, or report it in an event")
	f.BoolVar(&o.nodeAllocatable, "node-allocatable", false,
		"what a claim takes counts as the pod's requests (KEP-5517, feature gate DRANodeAllocatableResources)")
	f.BoolVar(&o.lists, "list-attributes", false,
		"publish all PCIe roots of a NUMA node (feature gate DRAListTypeAttributes)")
	f.BoolVar(&o.batch, "batch-cpu", false,
		"tell on the Node how much CPU batch pods may have now, as the extended resource "+batchCPU+", in thousandths")
	f.BoolVar(&o.offline, "offline-cpu", false, "the same as the extended resource "+offlineCPU+
		", for pods that request it by the name that it had before version 0.2")
	f.BoolVar(&o.evict, "evict", false, "evict batch pods that the daemon asks it for (share.evict_after)")
	f.BoolVar(&o.version, "version", false, "print the version and end")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.version:
	case f.NArg() > 0:
		err = fmt.Errorf("%q: homenode-kube takes flags only", f.Arg(0))
	case o.node == "":
		err = errors.New("--node-name, or NODE_NAME in the environment, must say which node this is")
	case o.managers != refuse && o.managers != report:
		err = fmt.Errorf("--kubelet-managers %q: want refuse or report", o.managers)
	}
	if err != nil {
		fmt.Fprintln(out, "homenode-kube:", err)
	}
	return o, err
}

func main() {
	o, err := flags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	case o.version:
		fmt.Println("homenode-kube", version)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "homenode-kube:", err)
		os.Exit(1)
	}
}

// run is the driver until ctx ends.
func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if o.kubeconfig == "" {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return err
	}
	config.UserAgent = "homenode-kube/" + version
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return serve(ctx, o, client, socket(o.socket))
}

// serve is the driver on a client and a daemon.
func serve(ctx context.Context, o options, client kubernetes.Interface, daemon homenode) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	plugin := filepath.Join(o.kubelet, "plugins", driverName)
	for _, dir := range []string{o.state, o.cdi, plugin} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
	}
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	defer events.Shutdown()
	d := &driver{
		daemon: daemon, client: client, evicts: o.evict, file: claimsFile(filepath.Join(o.state, "claims.json")),
		cdi: cdiFolder(o.cdi), pool: o.node, managers: o.managers,
		static: func() string { return staticManagers(o.kubelet) }, fatal: func(err error) {
			select {
			case failed <- err:
			default: // one is enough
			}
			cancel()
		},
		events: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "homenode-kube", Host: o.node}),
	}
	var err error
	if d.claims, err = d.file.read(); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(o.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(plugin),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(o.kubelet, "plugins_registry")),
		kubeletplugin.HealthService(false))
	if err != nil {
		return err
	}
	klog.InfoS("homenode-kube has started", "version", version, "node", o.node, "claims", len(d.claims))
	p := &publisher{d: d, publish: helper.PublishResources,
		offer: offer{nodeAllocatable: o.nodeAllocatable, lists: o.lists}}
	if as := o.resources(); len(as) > 0 {
		p.headroom = &headroom{client: client, node: o.node, as: as, told: -1}
	}
	p.run(ctx)
	helper.Stop()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
