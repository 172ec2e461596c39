package weir_test

import (
	"net/url"
	"testing"

	"weir"
)

func TestHostPort(t *testing.T) {
	for address, host := range map[string]string{"127.0.0.1:80": "127.0.0.1", "[::1]:0": "::1", ":65535": "",
		"localhost:80": "localhost", "[fe80::1%eth0]:80": "fe80::1%eth0", "7.example:80": "7.example", "web1:80": "web1",
		"17:80": "17"} {
		if got, _, err := weir.HostPort(address); err != nil || got != host {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	for _, address := range []string{"", "80", "127.0.0.1", "127.0.0.256:80", "127.0.0.1:65536", "127.0.0.1:http",
		"127.0.0.1:-1", "10.0.0:80", "1.2.3.4.5:80", "010.0.0.1:80", ".:80", "[::1:80", "[::g]:80", "[fe80::1%]:80"} {
		if host, port, err := weir.HostPort(address); err == nil {
			t.Errorf("%s: %q, %q", address, host, port)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for text, good := range map[string]bool{"http://127.0.0.1": true, "http://127.0.0.1:65535/": true,
		"https://[::1]:443": true, "http://web:": true, "http://127.0.0.256": false, "http://web:65536": false,
		"http://web:0": false, "https://300.1.1.1/x": false} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := weir.CheckURL(u); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
