package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

// chartFolder is the Helm chart, from the root of the source.
const chartFolder = "packaging/kube/chart"

// oneCluster is the values of the plain manifests that differ from the chart's: there is
// nobody else to make the namespace.
var oneCluster = map[string]any{"namespace": map[string]any{"create": true}}

// semantic is the version without the signs that set a development build apart: tags of images do
// not take them.
func (r *release) semantic() string {
	return strings.NewReplacer("~", "-", "+", "-").Replace(r.version)
}

// chartVersion is the version in the form of semver.org, which Helm sorts by. There a suffix sorts
// below its number, so that a development build after 0.2.0 comes before 0.2.1. A part with digits
// alone may not begin with 0: the parts of the suffix are joined by hyphens.
func (r *release) chartVersion() string {
	number, build, _ := strings.Cut(r.version, "+")
	number = strings.ReplaceAll(number, "~", "-")
	if build == "" {
		return number
	}
	v, err := semver.StrictNewVersion(number)
	if err == nil && v.Prerelease() == "" {
		number = v.IncPatch().String()
	}
	return number + "-" + strings.NewReplacer(".", "-", "+", "-").Replace(build)
}

// readChart is the chart with the version that is made; its own where none is.
func (r *release) readChart() (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(r.source, chartFolder))
	if err == nil && r.version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = r.chartVersion(), r.semantic()
	}
	return c, err
}

// render is the chart's manifests in the order in which they are to be applied, as `helm
// template homenode --namespace homenode` writes them.
func render(c *chart.Chart, values map[string]any) (string, error) {
	in, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "homenode", Namespace: "homenode",
		Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, in)
	if err != nil {
		return "", err
	}
	_, all, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "---\n%s\n", strings.TrimSpace(m.Content))
	}
	return b.String(), err
}

// manifests is the plain manifests.
func (r *release) manifests() (string, error) {
	c, err := r.readChart()
	if err != nil {
		return "", err
	}
	text, err := render(c, oneCluster)
	return "# Made from " + chartFolder + " by `make generate`: change it there.\n" + text, err
}

// kubernetes writes the chart as helm installs it, and the plain manifests.
func (r *release) kubernetes() error {
	c, err := r.readChart()
	if err != nil {
		return err
	}
	var all []file
	for _, f := range c.Raw {
		if f.Name == chartutil.ChartfileName {
			if f.Data, err = yaml.Marshal(c.Metadata); err != nil {
				return err
			}
		}
		all = append(all, file{"homenode/" + f.Name, 0o644, f.Data})
	}
	var b bytes.Buffer
	if err := tarOf(&b, all, r.time); err != nil {
		return err
	}
	z, err := zipped(b.Bytes())
	if err != nil {
		return err
	}
	text, err := r.manifests()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "homenode-kube-"+r.version+".yaml"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "homenode-chart-"+r.version+".tgz"), z, 0o644)
}
