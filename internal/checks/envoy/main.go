// Command envoy reads a configuration of Envoy with Envoy's own types: a field that does not exist, or a value that is
// not allowed, is an error. It prints the name of each filter for HTTP, and the cluster that it asks. It is a module of
// its own: what these types need is no business of weir's.
//
//	go run -C internal/checks/envoy . FILE
package main

import (
	"fmt"
	"os"
	"slices"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreams "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: envoy FILE")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	var file bootstrap.Bootstrap
	if err := protojson.Unmarshal(raw, &file); err != nil {
		return err
	}
	if err := file.ValidateAll(); err != nil {
		return err
	}
	var clusters []string
	for _, c := range file.GetStaticResources().GetClusters() {
		clusters = append(clusters, c.Name)
		for _, options := range c.TypedExtensionProtocolOptions {
			if _, err := valid(options); err != nil {
				return err
			}
		}
	}
	for _, l := range file.GetStaticResources().GetListeners() {
		for _, chain := range l.FilterChains {
			for _, f := range chain.Filters {
				if err := filters(f.GetTypedConfig(), clusters); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// valid is what an extension holds. It is one of those that this program imports.
func valid(extension *anypb.Any) (any, error) {
	m, err := extension.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *manager.HttpConnectionManager:
		return m, m.ValidateAll()
	case *ratelimit.RateLimit:
		return m, m.ValidateAll()
	case *authz.ExtAuthz:
		return m, m.ValidateAll()
	case *router.Router:
		return m, m.ValidateAll()
	case *upstreams.HttpProtocolOptions:
		return m, m.ValidateAll()
	}
	return nil, fmt.Errorf("%s is not an extension that this program knows", extension.TypeUrl)
}

// filters prints the filters for HTTP of a listener, and checks that the clusters which they and the routes name exist.
func filters(of *anypb.Any, clusters []string) error {
	m, err := valid(of)
	if err != nil {
		return err
	}
	http, ok := m.(*manager.HttpConnectionManager)
	if !ok {
		return fmt.Errorf("%s takes no HTTP", of.TypeUrl)
	}
	for _, host := range http.GetRouteConfig().GetVirtualHosts() {
		for _, r := range host.Routes {
			if to := r.GetRoute().GetCluster(); !slices.Contains(clusters, to) {
				return fmt.Errorf("a route leads to %q, which is not a cluster", to)
			}
		}
	}
	for _, f := range http.HttpFilters {
		m, err := valid(f.GetTypedConfig())
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		var service *core.GrpcService
		switch m := m.(type) {
		case *ratelimit.RateLimit:
			service = m.GetRateLimitService().GetGrpcService()
		case *authz.ExtAuthz:
			service = m.GetGrpcService()
		default:
			continue
		}
		asks := service.GetEnvoyGrpc().GetClusterName()
		if !slices.Contains(clusters, asks) {
			return fmt.Errorf("%s asks %q, which is not a cluster", f.Name, asks)
		}
		fmt.Println(f.Name, asks)
	}
	return nil
}
