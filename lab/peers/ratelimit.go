package peers

import _ "embed"

// Ratelimit is a configuration of envoyproxy/ratelimit, which weir reads as it is. RatelimitEnv is how the service is
// set up besides: its Redis is on the same machine, nobody collects statistics, and only errors are logged.
var (
	//go:embed ratelimit/edge.yaml
	Ratelimit string
	//go:embed ratelimit/service.env
	RatelimitEnv string
	//go:embed ratelimit/redis.conf
	Redis string
)
