package apt

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFindAddress(t *testing.T) {
	const none = "none of this machine's apt sources is an archive of Debian (an address that ends in /debian): add one to /etc/apt/sources.list.d"
	tests := []struct{ name, uris, want, wantErr string }{
		{"a mirror behind others", `'https://vendor.example/apt/dists/stable/InRelease' vendor.example_dists_InRelease 0
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' mirror.example_debian-security 0
'http://mirror.example/pub/debian/dists/bookworm/InRelease' mirror.example_pub_debian 0
'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian 0
`, "http://mirror.example/pub/debian", ""},
		{"no Debian", "'http://archive.ubuntu.com/ubuntu/dists/noble/InRelease' archive.ubuntu.com 0\n", "", none},
		{"no sources", "", "", none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findAddress([]byte(tt.uris))
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestCopyMember(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Name: "./bin/busybox", Typeflag: tar.TypeSymlink, Linkname: "../usr/bin/busybox"},
		{Name: "./usr/bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("hi")[:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	dst := filepath.Join(t.TempDir(), "busybox")
	if err := copyMember(bytes.NewReader(archive.Bytes()), regexp.MustCompile(`/bin/busybox$`), dst); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dst)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(dst); string(content) != "hi" || err != nil || info.Mode() != 0o755 {
		t.Errorf("got %q with mode %v, %v", content, info.Mode(), err)
	}

	const want = "no file matches /vmlinuz$"
	err = copyMember(bytes.NewReader(archive.Bytes()), regexp.MustCompile(`/vmlinuz$`), dst)
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRunKeepsWhatWasSaid(t *testing.T) {
	const want = "sh -c echo no space >&2; exit 3: exit status 3\nno space"
	if err := run("sh", "-c", "echo no space >&2; exit 3"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNeedSaysHowToGetWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // hides apt-get, too
	const want = "missing here: /no/such/file, no-such-program. Get it with: apt-get install its-headers its-package"
	if err := Need(map[string]string{"no-such-program": "its-package", "/no/such/file": "its-headers", "/": "base-files"}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestClosure(t *testing.T) {
	depends := []byte(`linux-perf
  Depends: libelf1t64
 |Depends: libcurl4-gnutls
  Depends: libcurl4-openssl
  Depends: <perl:any>
  Depends: <libpseudo>
  Depends: tzdata
libelf1t64
  Depends: libc6
libc6
  Depends: libelf1t64
libcurl4-gnutls
libcurl4-openssl
tzdata
  Depends: libbehind
libbehind
<perl:any>
<libpseudo>
  perl
`)
	got := closure(depends, "linux-perf", func(name string) bool { return strings.HasPrefix(name, "lib") })
	want := []string{"linux-perf", "libelf1t64", "libcurl4-gnutls", "libcurl4-openssl", "libc6"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
