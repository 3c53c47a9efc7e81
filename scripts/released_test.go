package scripts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releases is a clone of a source, and a folder with its release 0.2.0 whose binary is a script.
type releases struct {
	t                    *testing.T
	origin, clone, place string
	env                  []string
}

// name of the archive without its ending.
func (r *releases) name() string { return "homenode-0.2.0-linux-" + runtime.GOARCH }

func newReleases(t *testing.T) *releases {
	t.Helper()
	for _, program := range []string{"git", "gpg", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	r := &releases{t: t, origin: filepath.Join(dir, "origin"), clone: filepath.Join(dir, "clone"), place: filepath.Join(dir, "place")}
	home, err := os.MkdirTemp("", "hn") // the path of gpg-agent's socket must be short
	if err != nil {
		t.Fatal(err)
	}
	r.env = []string{"GNUPGHOME=" + home, "HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "BUILD=", "HOMENODE_RELEASE_KEY=",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	t.Cleanup(func() {
		run(t, "/", r.env, "gpgconf", "--kill", "all")
		os.RemoveAll(home)
	})
	for _, name := range []string{"released.sh", "verify.sh"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r.write(filepath.Join(r.origin, "scripts", name), text)
	}
	r.write(filepath.Join(r.origin, "VERSION"), []byte("0.2.0\n"))
	r.write(filepath.Join(r.origin, "RELEASES"), []byte("# none yet\n"))
	r.write(filepath.Join(r.origin, ".gitignore"), []byte("/homenode\n/release/\n"))
	r.genkey("a@example.invalid")
	r.write(filepath.Join(r.origin, "packaging/keys/a.asc"), []byte(r.do(r.origin, "gpg", "--armor", "--export", "a@example.invalid")))
	r.do(r.origin, "git", "init", "-q")
	r.commit(r.origin)
	r.do(dir, "git", "clone", "-q", r.origin, r.clone)
	r.release("0.2.0")
	return r
}

func (r *releases) genkey(of string) {
	r.t.Helper()
	r.do("/", "gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", of, "ed25519", "sign", "never")
}

func (r *releases) write(name string, text []byte) {
	r.t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, text, 0o644)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *releases) do(dir string, argv ...string) string {
	r.t.Helper()
	out, errs, status := run(r.t, dir, r.env, argv...)
	if status != 0 {
		r.t.Fatalf("%v: status %d: %s", argv, status, errs)
	}
	return out
}

func (r *releases) commit(dir string) {
	r.t.Helper()
	r.do(dir, "git", "add", ".")
	r.do(dir, "git", "commit", "-q", "--allow-empty", "-m", "one")
}

// release writes an archive whose binary says that it has that version, the sums and their signature.
func (r *releases) release(says string) {
	r.t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	binary := "#!/bin/sh\necho " + says + "\n"
	if err := w.WriteHeader(&tar.Header{Name: r.name() + "/bin/homenode", Mode: 0o755, Size: int64(len(binary))}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := w.Write([]byte(binary)); err != nil {
		r.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		r.t.Fatal(err)
	}
	at := filepath.Join(r.place, "0.2.0")
	r.write(filepath.Join(at, r.name()+".tar.gz"), b.Bytes())
	r.write(filepath.Join(at, "SHA256SUMS"), fmt.Appendf(nil, "%x  %s.tar.gz\n", sha256.Sum256(b.Bytes()), r.name()))
	r.sign("a@example.invalid")
}

func (r *releases) sign(key string) {
	r.t.Helper()
	r.do(filepath.Join(r.place, "0.2.0"), "gpg", "--batch", "--yes", "--quiet", "-u", key, "--armor", "--detach-sign", "-o", "SHA256SUMS.asc", "SHA256SUMS")
}

// asks runs released.sh in the clone without ./homenode; said is what it printed on standard error.
func (r *releases) asks(env ...string) (used bool, said string) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.clone, "homenode")); err != nil {
		r.t.Fatal(err)
	}
	out, errs, status := run(r.t, r.clone, append(r.env, env...), "sh", "scripts/released.sh")
	_, err := os.Stat(filepath.Join(r.clone, "homenode"))
	if used = status == 0; used != (err == nil) || out != "" || status > 1 {
		r.t.Errorf("status %d, said %q and %q; homenode: %v", status, out, errs, err)
	}
	return used, errs
}

// TestReleased: `make run` takes a released binary that a known key has signed, from a folder or an
// address, and builds in any other case, with the reason in a line.
func TestReleased(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("releases are for Linux")
	}
	r := newReleases(t)
	at := "HOMENODE_RELEASES=" + r.place
	builds := func(because string, env ...string) {
		t.Helper()
		used, said := r.asks(env...)
		if used || !strings.Contains(said, because) || because == "" && said != "" || strings.Count(said, "building") > 1 {
			t.Errorf("used: %v, said %q; want %q", used, said, because)
		}
	}
	uses := func(env ...string) {
		t.Helper()
		used, said := r.asks(env...)
		if !used || !strings.Contains(said, "homenode 0.2.0, released: signature and checksum are good") {
			t.Errorf("used: %v, said %q", used, said)
		}
		for line := range strings.Lines(said) {
			if strings.Contains(line, "homenode 0.2.0") && len(line) > 80 {
				t.Errorf("a line of %d bytes, which a terminal breaks within a word: %q", len(line), line)
			}
		}
	}
	builds("RELEASES names no address")
	builds("RELEASES names no address", "HOMENODE_RELEASES=")
	uses(at)
	// It stays in use without a search, until the user builds.
	if out, errs, status := run(t, r.clone, append(r.env, "HOMENODE_RELEASES="), "sh", "scripts/released.sh"); status != 0 || out+errs != "" {
		t.Errorf("the second time: status %d, %q %q", status, out, errs)
	}
	if said := r.do(r.clone, "./homenode"); said != "0.2.0\n" {
		t.Errorf("it is another binary: %q", said)
	}
	// A released one of an earlier version gives way to the one of this version.
	r.write(filepath.Join(r.clone, "homenode"), []byte("older\n"))
	older := filepath.Join(filepath.Dir(r.clone), "cache/homenode/releases/homenode-0.1.0-linux-"+runtime.GOARCH, "binary")
	r.write(older, fmt.Appendf(nil, "%x\n", sha256.Sum256([]byte("older\n"))))
	if _, errs, status := run(t, r.clone, append(r.env, at), "sh", "scripts/released.sh"); status != 0 || !strings.Contains(errs, "homenode 0.2.0, released") {
		t.Errorf("beside an older released binary: status %d, %q", status, errs)
	}
	r.write(filepath.Join(r.clone, "homenode"), []byte("built\n"))
	if out, errs, status := run(t, r.clone, append(r.env, at), "sh", "scripts/released.sh"); status != 1 || out+errs != "" {
		t.Errorf("beside a binary that was built: status %d, %q %q", status, out, errs)
	}
	builds("", at, "BUILD=1")

	server := httptest.NewServer(http.FileServer(http.Dir(r.place)))
	defer server.Close()
	uses("HOMENODE_RELEASES=" + server.URL)
	// The next place is asked where one does not answer.
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	uses("HOMENODE_RELEASES=" + closed.URL + " " + server.URL)
	builds("has no 0.2.0, or does not answer", "HOMENODE_RELEASES="+closed.URL)
	builds("has no 0.2.0, or does not answer", "HOMENODE_RELEASES=/nowhere")

	// As the tree says: RELEASES, and a folder that `make release` has written.
	if err := os.Symlink(r.place, filepath.Join(r.clone, "release")); err != nil {
		t.Fatal(err)
	}
	r.do(r.clone, "sh", "-c", "echo /release >>.git/info/exclude")
	uses()
	if err := os.Remove(filepath.Join(r.clone, "release")); err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(r.origin, "RELEASES"), []byte("# here\n"+server.URL+"\n"))
	r.commit(r.origin)
	r.do(r.clone, "git", "pull", "-q")
	uses()

	// What is not as it was signed.
	archive := filepath.Join(r.place, "0.2.0", r.name()+".tar.gz")
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	r.write(archive, append(text, 0))
	builds("does not have the checksum that was signed", at)
	r.write(archive, text)
	sums := filepath.Join(r.place, "0.2.0/SHA256SUMS")
	signed, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	r.write(sums, append(signed, '\n'))
	builds("not signed by a known key", at)
	r.write(sums, []byte("00  other.tar.gz\n"))
	r.sign("a@example.invalid")
	builds("has no 0.2.0 for "+runtime.GOARCH, at)
	r.genkey("b@example.invalid")
	r.write(sums, signed)
	r.sign("b@example.invalid")
	builds("not signed by a known key", at)
	key := filepath.Join(t.TempDir(), "b.asc")
	r.write(key, []byte(r.do("/", "gpg", "--armor", "--export", "b@example.invalid")))
	uses(at, "HOMENODE_RELEASE_KEY="+key)
	builds("cannot be read", at, "HOMENODE_RELEASE_KEY="+key+"x")
	r.release("0.1.0") // an older one under the name of this
	builds("does not run on this machine", at)
	r.release("0.2.0")

	// A branch that was pushed is not the source as it was cloned.
	r.do(r.clone, "git", "checkout", "-q", "-b", "own")
	r.commit(r.clone)
	r.do(r.clone, "git", "push", "-q", "origin", "own")
	builds("", at)
	r.do(r.clone, "git", "checkout", "-q", "-")
	uses(at)

	// Who changes the source wants it built.
	r.write(filepath.Join(r.clone, "new.go"), []byte("package a\n"))
	builds("", at)
	r.commit(r.clone)
	builds("", at)
	r.do(r.clone, "git", "tag", "v0.2.0")
	uses(at)
	r.write(filepath.Join(r.clone, "VERSION"), []byte("0.2.0\n\n"))
	builds("", at)
	r.do(r.clone, "git", "checkout", "-q", "VERSION")
	// Without a key nothing is trusted; an archive of the source has no history.
	if err := os.RemoveAll(filepath.Join(r.clone, ".git")); err != nil {
		t.Fatal(err)
	}
	uses(at)
	if err := os.RemoveAll(filepath.Join(r.clone, "packaging/keys")); err != nil {
		t.Fatal(err)
	}
	builds("packaging/keys has no key to check it with", at)
}
