// Package rlsgate answers Envoy: its rate limit service (envoy.service.ratelimit.v3) and its external authorization (ext_authz v3), with the
// same throttles as every other gate.
package rlsgate

import (
	_ "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	_ "google.golang.org/grpc"
)
