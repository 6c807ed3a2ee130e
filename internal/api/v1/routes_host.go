package v1

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/operator"
)

// hostRoutes are those of the host, for its operator.
func (s *surface) hostRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/host/history", Scope: api.Admin, Turn: true,
		Doc: kit.Doc{
			ID: "get-host-history", Summary: "List how full the host was", Errors: []int{403, 501},
			Description: "Only for admins. A sample every 10 seconds for an hour, and each minute for a day: processors, memory and disk of the host, sessions, the pool, and what the daemon did. They are kept over restarts of the daemon, but for up to a minute before a crash.",
		},
	}, s.hostHistory)
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/host/findings", Scope: api.Admin, Class: api.Long, Listens: true,
		Doc: kit.Doc{
			ID: "get-host-findings", Summary: "Tell what is wrong with the host", Errors: []int{403, 501},
			Description: "Only for admins. What sandkasten doctor and sandkasten fsck find while the daemon works, with what mends it; the drivers are not tried. It is looked for when somebody asks, at most every 10 seconds. That takes some milliseconds where all is well, and six seconds where something differs: only what stays so is told.",
		},
	}, s.host.GetFindings)
}

func (s *surface) hostHistory(ctx context.Context, in *HistorySelection) (*operator.HistoryOutput, error) {
	step, since, err := in.read()
	if err != nil {
		return nil, err
	}
	return s.host.GetHistory(ctx, step, since)
}
