package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is a folder with what release.sh needs of the source, committed, and with a gpg home of
// its own that has one key.
type checkout struct {
	t   *testing.T
	dir string
	env []string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	for _, program := range []string{"git", "gpg", "apt-ftparchive", "createrepo_c", "xz"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	c := &checkout{t: t, dir: t.TempDir()}
	// The path of a gpg home must be short: gpg-agent's socket is in it.
	home, err := os.MkdirTemp("", "hn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end := exec.Command("gpgconf", "--kill", "all")
		end.Env = append(os.Environ(), "GNUPGHOME="+home)
		_ = end.Run() // without an agent there is nothing to end
		os.RemoveAll(home)
	})
	c.env = append(os.Environ(), "GNUPGHOME="+home, "HOME="+home, "SOURCE_DATE_EPOCH=1795500000", "KEY=", "URL=",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	for _, name := range []string{"packaging/release.sh", "scripts/version.sh", "scripts/verify.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		c.write(name, string(text))
	}
	c.write("VERSION", "0.2.0\n")
	c.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- one\n")
	c.run("git", "init", "-q")
	c.run("git", "add", ".")
	c.run("git", "commit", "-q", "-m", "one")
	return c
}

func (c *checkout) write(name, text string) {
	c.t.Helper()
	name = filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// try runs a command in the checkout and returns what it printed.
func (c *checkout) try(argv ...string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *checkout) run(argv ...string) string {
	c.t.Helper()
	out, err := c.try(argv...)
	if err != nil {
		c.t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return out
}

// refused checks that a command fails with that text in its one line.
func (c *checkout) refused(want string, argv ...string) {
	c.t.Helper()
	out, err := c.try(argv...)
	if err == nil || !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
		c.t.Errorf("%v: %v, %q; want one line with %q", argv, err, out, want)
	}
}

func (c *checkout) key() {
	c.run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "Releaser <r@example.invalid>", "ed25519", "sign", "never")
}

// TestMayRelease: a release is a tagged commit whose changes have a number and a date, signed, made once.
func TestMayRelease(t *testing.T) {
	c := newCheckout(t)
	may := []string{"bash", "packaging/release.sh", "may", "out"}
	c.refused("tag that commit: git tag -s v0.2.0", may...)
	c.run("git", "tag", "v0.2.0")
	c.refused("CHANGELOG.md has no section '## 0.2.0 (YYYY-MM-DD)'", may...)
	c.write("CHANGELOG.md", "# Changelog\n\n## 0.2.0 (2026-11-24)\n\n- one\n")
	c.refused("0.2.0+dirty and not the release 0.2.0", may...)
	c.run("git", "commit", "-q", "-a", "-m", "two")
	c.refused("and not the release 0.2.0", may...)
	c.run("git", "tag", "-f", "v0.2.0")
	c.refused("gpg has no secret key", may...)
	c.key()
	c.run(may...)
	c.env = append(c.env, "KEY=other@example.invalid")
	c.refused("gpg has no secret key of other@example.invalid", may...)
	if err := os.MkdirAll(filepath.Join(c.dir, "out/0.2.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.refused("is there already", may...)
}

// TestRelease: apt takes the repository with its key and with no other, and knows the newer version;
// the same packages give the same trees but for signatures.
func TestRelease(t *testing.T) {
	c := newCheckout(t)
	c.key()
	c.run("git", "tag", "v0.2.0")
	for name, text := range made(t, "0.2.0") {
		c.write("dist/"+name, text)
	}
	for name, text := range made(t, "0.1.0") { // of the release before
		if strings.HasSuffix(name, ".deb") {
			c.write("apart/apt/pool/stable/"+name, text)
			c.write("again/apt/pool/stable/"+name, text)
		}
	}
	// A signature that fails, here that of an index, leaves what was there before.
	c.write("bin/gpg", "#!/bin/sh\ncase \"$*\" in *--clear-sign*) echo no agent >&2; exit 2 ;; esac\nPATH=${PATH#*:} exec gpg \"$@\"\n")
	if err := os.Chmod(filepath.Join(c.dir, "bin/gpg"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := c.sums("apart")
	if out, err := c.try("env", "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"), "bash", "packaging/release.sh", "make", "dist", "apart"); err == nil || !strings.Contains(out, "no agent") {
		t.Errorf("without a signature: %v, %s", err, out)
	}
	if after := c.sums("apart"); !maps.Equal(before, after) {
		t.Errorf("half a release stays: %d files, %d before", len(after), len(before))
	}
	said := c.run("bash", "packaging/release.sh", "make", "dist", "apart")
	if !strings.Contains(said, "packaging/keys does not have the key") {
		t.Errorf("not told that the source does not know the key: %q", said)
	}
	c.run("bash", "packaging/release.sh", "make", "dist", "again")
	a, b := c.sums("apart"), c.sums("again")
	if len(a) < 30 {
		t.Errorf("%d files", len(a))
	}
	for name, sum := range a {
		if b[name] != sum && !signature(name) {
			t.Errorf("%s is not the same the second time", name)
		}
	}
	for _, name := range []string{"0.2.0/homenode-0.2.0-linux-arm64", "0.2.0/NOTES.md", "0.2.0/homenode-kube-0.2.0-oci.tar", "yum/stable/homenode-0.2.0-1.aarch64.rpm",
		"yum/stable/repodata/repomd.xml.asc", "apt/dists/stable/Release.gpg", "README.md"} {
		if a[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	c.apt("apart/homenode.asc", true)
	// Another key did not sign it.
	c.run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "Other <o@example.invalid>", "ed25519", "sign", "never")
	c.write("other.asc", c.run("gpg", "--armor", "--export", "o@example.invalid"))
	c.apt("other.asc", false)
	// The indexes alone are made anew, when packages were added or taken out.
	c.env = append(c.env, "URL=https://example.invalid/homenode", "KEY=r@example.invalid")
	if err := os.Remove(filepath.Join(c.dir, "apart/apt/pool/stable/homenode_0.2.0-1_amd64.deb")); err != nil {
		t.Fatal(err)
	}
	c.run("bash", "packaging/release.sh", "trees", "apart")
	index, err := os.ReadFile(filepath.Join(c.dir, "apart/apt/dists/stable/main/binary-amd64/Packages"))
	if err != nil || strings.Contains(string(index), "Version: 0.2.0") || !strings.Contains(string(index), "Version: 0.1.0") {
		t.Errorf("%v\n%s", err, index)
	}
	sources, err := os.ReadFile(filepath.Join(c.dir, "apart/homenode.sources"))
	if err != nil || !strings.Contains(string(sources), "URIs: https://example.invalid/homenode/apt\n") {
		t.Errorf("%v\n%s", err, sources)
	}
}

func signature(name string) bool {
	return strings.HasSuffix(name, ".asc") || strings.HasSuffix(name, "InRelease") || strings.HasSuffix(name, "Release.gpg")
}

// sums returns the checksum of each file in a folder.
func (c *checkout) sums(dir string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	root := filepath.Join(c.dir, dir)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(root, name)
		out[rel] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// apt has apt read the repository with that key alone.
func (c *checkout) apt(key string, takes bool) {
	c.t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		return
	}
	c.write("apt/sources.list", "deb [signed-by="+filepath.Join(c.dir, key)+"] file:"+filepath.Join(c.dir, "apart/apt")+" stable main\n")
	c.write("apt/status", "")
	for _, dir := range []string{"apt/lists/partial", "apt/cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	at := func(name string) string { return `"` + filepath.Join(c.dir, "apt", name) + `";` }
	c.write("apt/conf", "Dir::Etc::SourceList "+at("sources.list")+"\nDir::Etc::SourceParts \"-\";\nDir::State "+at("")+"\nDir::State::Lists "+at("lists")+"\nDir::State::status "+at("status")+
		"\nDir::Cache "+at("cache")+"\nAPT::Sandbox::User \"root\";\nAPT::Architecture \"amd64\";\nAcquire::Languages \"none\";\n")
	was := c.env
	defer func() { c.env = was }()
	c.env = append(c.env, "APT_CONFIG="+filepath.Join(c.dir, "apt/conf"))
	out, err := c.try("apt-get", "update", "--error-on=any")
	if (err == nil) != takes {
		c.t.Fatalf("apt-get update with %s: %v\n%s", key, err, out)
	}
	if takes {
		if policy := c.run("apt-cache", "policy", "homenode"); !strings.Contains(policy, "Candidate: 0.2.0-1") || !strings.Contains(policy, "0.1.0-1") {
			c.t.Errorf("apt-cache policy: %s", policy)
		}
	}
}
