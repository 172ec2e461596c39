package main

import (
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// readPage returns the status and the body of a page of the console.
func readPage(t *testing.T, console, page string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + console + page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestNotReadyForMail: a file system that becomes read-only takes no mail, and weir is not ready.
func TestNotReadyForMail(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		needs.Skip(t, "a file system of its own takes root")
	}
	folder := shortFolder(t)
	image, data := filepath.Join(folder, "image"), filepath.Join(folder, "data")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	mkfs := needs.Program(t, "mkfs.ext4", "e2fsprogs")
	if out, err := exec.Command(mkfs, "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop,errors=remount-ro", image, data).CombinedOutput(); err != nil {
		needs.Skip(t, string(out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", data).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	gate, console := needs.FreeAddress(), needs.FreeAddress()
	manage(t, folder, fmt.Sprintf(`
console: {listen: %q}
smtp:
- {listen: %q, hostname: mail.example.org, auth: none, networks: [127.0.0.0/8], next_hop: %q}
`, console, gate, needs.FreeAddress()), io.Discard)
	send := func() error {
		return smtp.SendMail(gate, nil, "ann@example.org", []string{"bob@example.net"},
			[]byte("Subject: x\r\n\r\nhello\r\n"))
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if code, body := readPage(t, console, "/readyz"); code != http.StatusOK {
		t.Fatal(code, body)
	}
	// What the kernel does when it finds a mistake in the file system.
	if out, err := exec.Command("mount", "-o", "remount,abort", data).CombinedOutput(); err != nil {
		needs.Skip(t, string(out))
	}
	needs.Wait(t, "weir is not ready", func() bool {
		code, body := readPage(t, console, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "mail cannot be stored")
	})
	if _, body := readPage(t, console, "/metrics"); !strings.Contains(body, `weir_store_failing{part="mail"} 1`) {
		t.Error("weir_store_failing does not say so")
	}
	if err := send(); err == nil || !strings.HasPrefix(err.Error(), "451") {
		t.Error(err)
	}
}

// TestNotReadyWithoutLog: a log on a full disk, and one whose reader is gone.
func TestNotReadyWithoutLog(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	for want, log := range map[string]*os.File{"no space left on device": full, "broken pipe": w} {
		console := needs.FreeAddress()
		folder := shortFolder(t)
		manage(t, folder, fmt.Sprintf("console: {listen: %q}\n", console), log)
		needs.Wait(t, "weir is not ready", func() bool {
			code, body := readPage(t, console, "/readyz")
			return code == http.StatusServiceUnavailable && strings.Contains(body, want)
		})
		out, err := exec.Command("weir", "status", "-c", filepath.Join(folder, "weir.yaml")).CombinedOutput()
		if first, _, _ := strings.Cut(string(out), "\n"); err != nil || !strings.Contains(first, want) {
			t.Errorf("weir status says %q, %v; want %q", first, err, want)
		}
	}
}
