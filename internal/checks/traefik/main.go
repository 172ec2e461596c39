// Command traefik reads a file of Traefik's dynamic configuration with Traefik's own code: a field that does not exist is
// an error. It prints the name and the address of each middleware that asks somebody else. It is a module of its own:
// what Traefik needs is no business of weir's.
//
//	go run -C internal/checks/traefik . FILE
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/traefik/paerser/file"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: traefik FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check also looks whether routers, middlewares and services name each other rightly, which Traefik would only log.
func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var c dynamic.Configuration
	if err := file.DecodeContent(string(text), filepath.Ext(name), &c); err != nil {
		return err
	}
	if c.HTTP == nil {
		return fmt.Errorf("%s: there is no http", name)
	}
	for router, r := range c.HTTP.Routers {
		if c.HTTP.Services[r.Service] == nil {
			return fmt.Errorf("%s: router %s: there is no service %q", name, router, r.Service)
		}
		for _, m := range r.Middlewares {
			if c.HTTP.Middlewares[m] == nil {
				return fmt.Errorf("%s: router %s: there is no middleware %q", name, router, m)
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(c.HTTP.Middlewares)) {
		if ask := c.HTTP.Middlewares[m].ForwardAuth; ask != nil {
			fmt.Println(m, ask.Address)
		}
	}
	return nil
}
