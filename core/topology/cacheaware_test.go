package topology

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"testing/fstest"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadCacheAware(t *testing.T) {
	const set, unset = "CONFIG_SMP=y\nCONFIG_SCHED_CACHE=y\n", "CONFIG_SMP=y\n# CONFIG_SCHED_CACHE is not set\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  CacheAware
	}{
		{"switched on", map[string]string{CacheAwareFile: "1\n"}, CacheAware{CacheAwareOn, "/" + CacheAwareFile}},
		{"switched off", map[string]string{CacheAwareFile: "N\n", "proc/config.gz": zipped(t, set)}, CacheAware{CacheAwareOff, "/" + CacheAwareFile}},
		{"a scheduler feature", map[string]string{schedFeatures: "PLACE_LAG SCHED_CACHE UTIL_EST"}, CacheAware{CacheAwareOn, "/" + schedFeatures}},
		{"a scheduler feature, off", map[string]string{schedFeatures: "PLACE_LAG NO_SCHED_CACHE"}, CacheAware{CacheAwareOff, "/" + schedFeatures}},
		{"debugfs without it", map[string]string{schedFeatures: "PLACE_LAG", kernelRelease: "7.3.4"}, CacheAware{CacheAwareNone, "/" + schedDebug}},
		{"the kernel's own configuration", map[string]string{"proc/config.gz": zipped(t, set)}, CacheAware{CacheAwareBuiltIn, "/proc/config.gz"}},
		{"not built in", map[string]string{"proc/config.gz": zipped(t, unset), kernelRelease: "7.3.4"}, CacheAware{CacheAwareNone, "/proc/config.gz"}},
		{"a distribution's configuration", map[string]string{kernelRelease: "7.3.4-cloud", "boot/config-7.3.4-cloud": set}, CacheAware{CacheAwareBuiltIn, "/boot/config-7.3.4-cloud"}},
		{"beside the modules", map[string]string{kernelRelease: "7.3.4", "lib/modules/7.3.4/config": unset}, CacheAware{CacheAwareNone, "/lib/modules/7.3.4/config"}},
		{"another kernel's configuration", map[string]string{kernelRelease: "7.3.4", "boot/config-7.3.5": set}, CacheAware{State: CacheAwareUnknown}},
		{"built in by a vendor", map[string]string{kernelRelease: "6.6.0-v", "boot/config-6.6.0-v": set}, CacheAware{CacheAwareBuiltIn, "/boot/config-6.6.0-v"}},
		{"too old", map[string]string{kernelRelease: "7.1.12-1-amd64"}, CacheAware{CacheAwareNone, "Linux 7.1"}},
		{"new enough, and nothing more is known", map[string]string{kernelRelease: "7.2.0"}, CacheAware{State: CacheAwareUnknown}},
		{"nothing", nil, CacheAware{State: CacheAwareUnknown}},
		{"not a number", map[string]string{CacheAwareFile: "maybe", kernelRelease: "x.y"}, CacheAware{State: CacheAwareUnknown}},
		{"a release that leaves its folder", map[string]string{kernelRelease: "../../etc", "etc": set}, CacheAware{State: CacheAwareUnknown}},
		{"an empty configuration", map[string]string{"proc/config.gz": zipped(t, ""), kernelRelease: "7.2"}, CacheAware{State: CacheAwareUnknown}},
		{"a torn configuration", map[string]string{"proc/config.gz": zipped(t, strings.Repeat(unset, 99))[:40], kernelRelease: "7.2"}, CacheAware{State: CacheAwareUnknown}},
		{"one that is no configuration", map[string]string{"proc/config.gz": zipped(t, strings.Repeat("\x00", 9<<20)), kernelRelease: "7.2"}, CacheAware{State: CacheAwareUnknown}},
		{"one without end", map[string]string{"proc/config.gz": zipped(t, strings.Repeat("CONFIG_A=y\n", 1<<20)), kernelRelease: "7.2"}, CacheAware{State: CacheAwareUnknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range c.files {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := ReadCacheAware(fsys); got != c.want {
				t.Errorf("is %+v, want %+v", got, c.want)
			}
		})
	}
}

func FuzzCacheAware(f *testing.F) {
	f.Add("1", "PLACE_LAG SCHED_CACHE", "7.3.4-cloud", []byte(zipped(f, "CONFIG_SCHED_CACHE=y\n")))
	f.Add("", "", "6.12", []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, enabled, features, release string, config []byte) {
		fsys := fstest.MapFS{
			CacheAwareFile: {Data: []byte(enabled)}, schedFeatures: {Data: []byte(features)},
			kernelRelease: {Data: []byte(release)}, kernelConfig: {Data: config},
		}
		c := ReadCacheAware(fsys)
		if (c.From == "") != (c.State == CacheAwareUnknown) {
			t.Errorf("%+v: it is known from somewhere, or unknown", c)
		}
	})
}
