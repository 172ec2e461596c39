//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// A proxy is one side of Q2. All stand in front of the same service.
type proxy struct {
	name     string
	plain    string // the address for HTTP
	secure   string // the address for HTTPS, with HTTP/2; empty without
	refusing string // the address and path where every request is over its limit; empty without
	pids     []int
}

// spent is how long the processes of the proxy have worked.
func (p *proxy) spent() time.Duration { return machine.Spent(p.pids...) }

// The proxies of Q2, in the order of startProxies.
const (
	byNginx = iota
	byHAProxy
	byWeir
)

const largeBody = 1 << 20

// startProxies starts nginx, HAProxy, weir, and the service behind them. It returns the address of the service, the
// ids of its processes, and the proxies.
func (t *trial) startProxies(folder, binary string) (service string, pids []int, all []*proxy) {
	haproxy := program("haproxy")
	check(os.Chmod(folder, 0o755)) // the workers of nginx are another user
	check(os.WriteFile(filepath.Join(folder, "large"), make([]byte, largeBody), 0o644))
	service, pids = t.runNginx(folder, "service", peers.NginxService, map[string]string{"Folder": folder})
	cert, key, pair := selfSigned(folder)
	given := map[string]string{"Folder": folder, "Service": service, "Cert": cert, "Key": key, "Pair": pair}
	given["Secure"] = try(machine.FreeAddress("127.0.0.1"))
	address, ours := t.runNginx(folder, "proxy", peers.NginxProxy, given)
	all = append(all, &proxy{"nginx", address, given["Secure"], address + "/refused", ours})

	given["Listen"], given["Secure"] = try(machine.FreeAddress("127.0.0.1")), try(machine.FreeAddress("127.0.0.1"))
	file := filepath.Join(folder, "haproxy.cfg")
	check(os.WriteFile(file, []byte(filled(peers.HAProxyProxy, given)), 0o600))
	p := t.launch(machine.Task{Program: haproxy, Args: []string{"-db", "-f", file}}, "tcp", given["Listen"])
	all = append(all, &proxy{"HAProxy", given["Listen"], given["Secure"], given["Listen"] + "/refused", []int{p.Pid}})

	weir := &proxy{name: "weir"}
	for i, way := range []struct {
		to    *string
		tls   string
		limit int
	}{
		{&weir.plain, "", unlimited},
		{&weir.refusing, "", 1},
		{&weir.secure, fmt.Sprintf("{cert: %s, key: %s}", cert, key), unlimited},
	} {
		data := subfolder(folder, strconv.Itoa(i))
		r := t.runWeir(data, fmt.Sprintf(q2Config, data, service, way.tls, way.limit), os.Stderr, binary)
		*way.to = r.address
		weir.pids = append(weir.pids, r.Pid)
	}
	weir.refusing += "/"
	return service, pids, append(all, weir)
}

// unlimited is a limit that nobody reaches.
const unlimited = 1_000_000_000

const q2Config = `
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [plans]
  tls: %s
throttles:
  plans: {quota: {policies: [{name: hourly, limit: %d, period: 1h}]}}
console: {listen: "off"}
log: {access: "off"}
`

// startNginx runs an nginx with a configuration, and returns its address when it listens.
func (t *trial) startNginx(folder, name, text, service string) string {
	address, _ := t.runNginx(folder, name, text, map[string]string{"Folder": folder, "Service": service})
	return address
}

// runNginx also returns the ids of the master and of its workers.
func (t *trial) runNginx(folder, name, text string, given map[string]string) (address string, pids []int) {
	address, file := try(machine.FreeAddress("127.0.0.1")), filepath.Join(folder, name+".conf")
	given["Listen"] = address
	check(os.WriteFile(file, []byte(filled(text, given)), 0o600))
	p := t.launch(machine.Task{Program: program("nginx"), Args: []string{"-c", file, "-p", folder}, Log: os.Stderr,
		Quit: syscall.SIGQUIT}, "tcp", address)
	until(func() bool { pids = machine.Family(p.Pid); return len(pids) > 1 },
		func() error { return fmt.Errorf("nginx %s has no workers", name) })
	return address, pids
}

// startReverseProxy runs httputil's proxy in this process, which has nothing else to do, with as many idle
// connections as it can use.
func (t *trial) startReverseProxy(service string) string {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression = 0, 1024, true
	to := &url.URL{Scheme: "http", Host: service}
	quiet := log.New(io.Discard, "", 0) // clients that stop are not errors
	server := &http.Server{ErrorLog: quiet, Handler: &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		}}}
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(l) }()
	t.cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return l.Addr().String()
}

// selfSigned makes a certificate and its key, as two files and as one.
func selfSigned(folder string) (cert, key, pair string) {
	secret := try(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	named := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"bench.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	signed := try(x509.CreateCertificate(rand.Reader, named, named, &secret.PublicKey, secret))
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: try(x509.MarshalPKCS8PrivateKey(secret))})
	write := func(name string, text []byte) string {
		file := filepath.Join(folder, name)
		check(os.WriteFile(file, text, 0o600))
		return file
	}
	return write("cert.pem", certText), write("key.pem", keyText), write("pair.pem", append(certText, keyText...))
}
