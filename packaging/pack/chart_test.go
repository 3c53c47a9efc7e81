package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/lint"
	"sigs.k8s.io/yaml"
)

var here = &release{source: "../.."}

// variants is the chart as it may be installed.
var variants = map[string]map[string]any{
	"as it is":        nil,
	"plain manifests": oneCluster,
	"batch work":      {"driver": map[string]any{"batchCPU": true, "evict": true}},
	"offline CPU":     {"driver": map[string]any{"offlineCPU": true}},
	"enforce": {"mode": "enforce", "config": map[string]any{"manage": map[string]any{"exclude": []any{"kube-system/**"}}},
		"driver": map[string]any{"nodeAllocatable": true, "listAttributes": true, "kubeletManagers": "report"}},
	"driver alone":      {"daemon": map[string]any{"enabled": false}},
	"daemon alone":      {"driver": map[string]any{"enabled": false}},
	"nothing preferred": {"tolerations": []any{}, "nodeSelector": map[string]any{}, "priorityClassName": "", "admissionPolicy": false},
}

type object = map[string]any

// objects is the manifests of a variant.
func objects(t *testing.T, c *chart.Chart, values map[string]any) (out []object) {
	t.Helper()
	text, err := render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(text, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(part, "---\n")), &o); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		out = append(out, o)
	}
	return out
}

func readChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := here.readChart()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// at is what lies at a path of keys and indices.
func at(o any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := o.(object)
			o = m[p]
		case int:
			s, _ := o.([]any)
			if p >= len(s) {
				return nil
			}
			o = s[p]
		}
	}
	return o
}

// TestChartLint: what `helm lint --strict` says of every variant.
func TestChartLint(t *testing.T) {
	for name, values := range variants {
		for _, m := range lint.All(filepath.Join(here.source, chartFolder), values, "homenode", true).Messages {
			if m.Severity > 1 { // support.InfoSev: an icon is recommended
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestManifests: the plain manifests are what the chart gives.
func TestManifests(t *testing.T) {
	got, err := here.manifests()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../kube/homenode.yaml")
	if err != nil || got != string(want) {
		t.Errorf("packaging/kube/homenode.yaml is not what the chart gives (%v): make generate", err)
	}
}

// TestChartRefuses: values that mean nothing are told, not ignored.
func TestChartRefuses(t *testing.T) {
	for what, values := range map[string]map[string]any{
		"mode":      {"mode": "act"},
		"misspelt":  {"drivers": map[string]any{"enabled": false}},
		"policy":    {"driver": map[string]any{"kubeletManagers": "ignore"}},
		"relative":  {"paths": map[string]any{"cdi": "var/run/cdi"}},
		"two modes": {"config": map[string]any{"mode": "enforce"}},
	} {
		if text, err := render(readChart(t), values); err == nil {
			t.Errorf("%s: taken\n%s", what, text)
		}
	}
}

// TestChartAsks: what the chart asks of a cluster and a node, and no more.
func TestChartAsks(t *testing.T) {
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			daemon, driver := name != "driver alone", name != "daemon alone"
			containers := 0
			for _, o := range objects(t, readChart(t), values) {
				switch o["kind"] {
				case "ClusterRole":
					var got []string
					for _, r := range o["rules"].([]any) {
						got = append(got, fmt.Sprint(at(r, "resources"), at(r, "verbs")))
					}
					want := []string{"[resourceslices] [list watch create update delete]", "[resourceclaims] [get]", "[nodes] [get]", "[events] [create patch]"}
					if name == "batch work" {
						want = append(want, "[nodes/status] [patch]", "[pods] [get]", "[pods/eviction] [create]")
					}
					if name == "offline CPU" {
						want = append(want, "[nodes/status] [patch]")
					}
					if !driver || !slices.Equal(got, want) {
						t.Errorf("rules: %q", got)
					}
				case "ConfigMap":
					want := "observe"
					if name == "enforce" {
						want = "enforce"
					}
					var c map[string]any
					if err := yaml.Unmarshal([]byte(at(o, "data", "homenode.yaml").(string)), &c); err != nil || c["mode"] != want {
						t.Errorf("configuration %v: %v", c, err)
					}
				case "DaemonSet":
					pod := at(o, "spec", "template", "spec")
					for _, key := range []string{"hostPID", "hostNetwork"} {
						if (at(pod, key) == true) != daemon {
							t.Errorf("%s: %v", key, at(pod, key))
						}
					}
					if at(pod, "automountServiceAccountToken") != driver {
						t.Error("the token is for the driver")
					}
					volumes := map[string]bool{}
					for _, v := range at(pod, "volumes").([]any) {
						volumes[at(v, "name").(string)] = true
					}
					used := map[string]bool{}
					for _, c := range at(pod, "containers").([]any) {
						containers++
						for _, m := range at(c, "volumeMounts").([]any) {
							used[at(m, "name").(string)] = true
						}
						security := at(c, "securityContext")
						if (at(security, "privileged") == true) != (at(c, "name") == "daemon") || at(security, "readOnlyRootFilesystem") != true {
							t.Errorf("%v: %v", at(c, "name"), security)
						}
						if at(c, "name") == "driver" && (fmt.Sprint(at(security, "capabilities")) != "map[drop:[ALL]]" || at(security, "allowPrivilegeEscalation") != false) {
							t.Errorf("driver: %v", security)
						}
					}
					if !maps.Equal(volumes, used) {
						t.Errorf("volumes %v, used %v", volumes, used)
					}
				}
			}
			want := 0
			for _, is := range []bool{daemon, driver} {
				if is {
					want++
				}
			}
			if containers != want {
				t.Errorf("%d containers", containers)
			}
		})
	}
}

// TestChartVersion: Helm sorts a development build above its release and below the next one.
func TestChartVersion(t *testing.T) {
	var before *semver.Version
	for _, c := range []struct{ version, want string }{
		{"0.2.0", "0.2.0"},
		{"0.2.0+git20261124.0939.0123456", "0.2.1-git20261124-0939-0123456"}, // no part is a number that begins with 0
		{"0.2.0+git20261124.1405.1a2b3c4", "0.2.1-git20261124-1405-1a2b3c4"},
		{"0.2.1", "0.2.1"},
		{"0.3.0~rc1", "0.3.0-rc1"},
		{"0.3.0~rc1+git20261201.0900.1a2b3c4", "0.3.0-rc1-git20261201-0900-1a2b3c4"},
		{"0.3.0", "0.3.0"},
	} {
		r := release{version: c.version}
		if got := r.chartVersion(); got != c.want {
			t.Errorf("%s: %s, want %s", c.version, got, c.want)
		}
		v, err := semver.StrictNewVersion(r.chartVersion())
		if err != nil {
			t.Errorf("%s: %v", c.version, err)
			continue
		}
		if before != nil && !v.GreaterThan(before) {
			t.Errorf("%s does not sort above %s", v, before)
		}
		before = v
	}
}

// TestChartArchive: what is given out is a chart of the version that was made, twice the same.
func TestChartArchive(t *testing.T) {
	made := func() ([]byte, string) {
		r := release{version: "0.2.0+git20261122.0915.1a2b3c4", time: time.Unix(1, 0), source: "../..", out: t.TempDir()}
		if err := r.kubernetes(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(r.out, "homenode-chart-"+r.version+".tgz"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := os.ReadFile(filepath.Join(r.out, "homenode-kube-"+r.version+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return b, string(m)
	}
	a, plain := made()
	if b, again := made(); !bytes.Equal(a, b) || plain != again {
		t.Error("not the same the second time")
	}
	c, err := loader.LoadArchive(bytes.NewReader(a))
	if err != nil || c.Validate() != nil {
		t.Fatalf("%v, %v", err, c.Validate())
	}
	text, err := render(c, oneCluster)
	if err != nil || !strings.HasSuffix(plain, text) || !strings.Contains(text, "image: \"homenode-kube:0.2.0-git20261122.0915.1a2b3c4\"") {
		t.Errorf("%v\n%s", err, text)
	}
}

// binaries is the folder with etcd and kube-apiserver, as cluster/kube/e2e/build.sh keeps them;
// "" where it has not been run.
func binaries() string {
	if dir := os.Getenv("HOMENODE_KUBE_BIN"); dir != "" {
		return dir
	}
	cache, _ := os.UserCacheDir()
	found, _ := filepath.Glob(filepath.Join(cache, "homenode/kube/*/kube-apiserver"))
	for _, f := range slices.Backward(found) {
		if dir := filepath.Dir(f); exec.Command(filepath.Join(dir, "etcd"), "--version").Run() == nil {
			return dir
		}
	}
	return ""
}

// apiServer starts a real API server; ask sends an object to it as `kubectl apply
// --server-side --validate=strict` does, and gives the code of the answer and its text. With a
// node it is the driver there who creates the object.
func apiServer(t *testing.T) (ask func(node, query string, o object) (int, string)) {
	bin := binaries()
	if bin == "" {
		t.Skip("no kube-apiserver: cluster/kube/e2e/build.sh builds it")
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var ports [3]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at once: no two are the same
		ports[i] = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := file("sa.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	run := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s: …%s", name, log.Bytes()[max(0, log.Len()-2000):])
			}
		})
	}
	db := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	run("etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+db, "--advertise-client-urls="+db, fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[1]), "--unsafe-no-fsync")
	run("kube-apiserver", "--etcd-servers="+db, fmt.Sprint("--secure-port=", ports[2]), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(dir, "certs"),
		"--service-account-key-file="+private, "--service-account-signing-key-file="+private, "--service-account-issuer=https://test.local", "--service-cluster-ip-range=10.96.0.0/24",
		"--token-auth-file="+file("tokens.csv", []byte("admin,admin,admin,system:masters\n")), "--authorization-mode=RBAC", "--allow-privileged=true")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	send := func(node, method, path string, body []byte) (int, string) {
		q, err := http.NewRequest(method, fmt.Sprintf("https://127.0.0.1:%d%s", ports[2], path), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer admin")
		q.Header.Set("Content-Type", "application/apply-patch+yaml")
		if node != "" {
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Impersonate-User", "system:serviceaccount:homenode:homenode-kube")
			q.Header.Set("Impersonate-Extra-authentication.kubernetes.io%2fnode-name", node)
		}
		a, err := client.Do(q)
		if err != nil {
			return 0, err.Error()
		}
		defer a.Body.Close()
		text, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(text)
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		code, text := send("", http.MethodGet, "/readyz", nil)
		if code == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the API server is not ready: %s", text)
		}
	}
	return func(node, query string, o object) (int, string) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		path := "/api/v1/"
		if group := o["apiVersion"].(string); group != "v1" {
			path = "/apis/" + group + "/"
		}
		if ns, ok := at(o, "metadata", "namespace").(string); ok {
			path += "namespaces/" + ns + "/"
		}
		path += plurals[o["kind"].(string)]
		if node != "" {
			return send(node, http.MethodPost, path+"?fieldValidation=Strict"+query, data)
		}
		return send("", http.MethodPatch, path+"/"+at(o, "metadata", "name").(string)+"?fieldManager=test&force=true&fieldValidation=Strict"+query, data)
	}
}

var plurals = map[string]string{
	"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "DaemonSet": "daemonsets",
	"DeviceClass": "deviceclasses", "ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"ResourceClaimTemplate": "resourceclaimtemplates", "ResourceSlice": "resourceslices", "Pod": "pods",
}

// TestServerSide: a real API server takes every variant, field by field, and the examples of
// docs/kubernetes.md; with what is installed a driver may write its own slices, and no others.
func TestServerSide(t *testing.T) {
	ask := apiServer(t)
	take := func(what, query string, all []object) {
		t.Helper()
		for _, o := range all {
			if code, text := ask("", query, o); code >= 300 {
				t.Errorf("%s: %s: %d %s", what, o["kind"], code, text)
			}
		}
	}
	take("plain manifests", "", objects(t, readChart(t), oneCluster))
	for name, values := range variants {
		take(name, "&dryRun=All", objects(t, readChart(t), values))
	}
	bad := object{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"name": "x", "namespace": "homenode"}, "spec": object{"hostPID": true}}
	if code, _ := ask("", "&dryRun=All", bad); code < 300 {
		t.Error("what is wrong is taken")
	}
	take("default", "", []object{{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default", "namespace": "default"}}})
	kinds := map[any]int{}
	for _, o := range examples(t) {
		if o["kind"] == nil { // values of the chart
			take("values in docs/kubernetes.md", "&dryRun=All", objects(t, readChart(t), o))
		} else {
			if at(o, "metadata", "namespace") == nil {
				o["metadata"].(object)["namespace"] = "default"
			}
			take("docs/kubernetes.md", "&dryRun=All", []object{o})
		}
		kinds[o["kind"]]++
	}
	if kinds[nil] == 0 || kinds["Pod"] == 0 || kinds["ResourceClaimTemplate"] == 0 {
		t.Errorf("examples: %v", kinds)
	}

	slice := func(name, node, driver string) object {
		return object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": object{"name": name}, "spec": object{"driver": driver, "nodeName": node,
			"pool": object{"name": node, "resourceSliceCount": 1, "generation": 1}}}
	}
	// A policy is in force a while after it was taken.
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		code, text := ask("n1", "&dryRun=All", slice("other", "n2", "homenode.io"))
		if code == http.StatusUnprocessableEntity && strings.Contains(text, "of the node that it runs on only") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a slice of another node: %d %s", code, text)
		}
	}
	if code, text := ask("n1", "", slice("own", "n1", "homenode.io")); code != http.StatusCreated {
		t.Errorf("a slice of its own: %d %s", code, text)
	}
	if code, _ := ask("n1", "&dryRun=All", slice("gpu", "n1", "gpu.example.com")); code != http.StatusUnprocessableEntity {
		t.Errorf("a slice of another driver: %d", code)
	}
	if code, _ := ask("n1", "&dryRun=All", object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "x", "namespace": "homenode"}}); code != http.StatusForbidden {
		t.Errorf("a ConfigMap: %d", code)
	}
}

var example = regexp.MustCompile("(?s)\n```yml\n(.*?)```")

// examples is the Kubernetes objects, and values of the chart, in docs/kubernetes.md.
func examples(t *testing.T) (out []object) {
	t.Helper()
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range example.FindAllSubmatch(text, -1) {
		for part := range strings.SplitSeq(string(block[1]), "\n---\n") {
			var o object
			if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
				t.Errorf("docs/kubernetes.md: %v\n%s", err, part)
			}
			out = append(out, o)
		}
	}
	return out
}

// TestExamples: values in docs/kubernetes.md are such that the chart takes.
func TestExamples(t *testing.T) {
	for _, o := range examples(t) {
		if o["kind"] == nil {
			objects(t, readChart(t), o)
		}
	}
}
