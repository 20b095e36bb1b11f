package tool

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
	"github.com/skiffmq/skiff/fsm"
	controllerv1 "github.com/skiffmq/skiff/proto/controller/v1"
	"github.com/skiffmq/skiff/quorum/client"
)

func featureCommand() *cobra.Command {
	cmd := group("feature", "Look at the levels of features, and change them")
	f := addFinder(cmd)
	cmd.AddCommand(f.featureList(),
		f.featureUpdate("upgrade", "Raise levels, if every broker and quorum node supports them", controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_UPGRADE),
		f.featureUpdate("downgrade", "Lower levels, while nothing depends on the higher ones", controllerv1.FeatureUpdateType_FEATURE_UPDATE_TYPE_SAFE_DOWNGRADE))
	return cmd
}

// listedFeature is one feature in the output of list.
type listedFeature struct {
	Name  string `json:"name"`
	Level int32  `json:"level"`
	// Min and Max are the levels that every registered process supports.
	Min int32 `json:"supported_min"`
	Max int32 `json:"supported_max"`
}

func (f *finder) featureList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the features with their levels, and the levels that all processes support", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := f.image(cmd)
			if err != nil {
				return err
			}
			list := []listedFeature{}
			table := output.Rows{Head: []string{"feature", "level", "supported from", "to"}}
			for _, feature := range fsm.Supported() {
				l := listedFeature{Name: feature.Name, Level: img.FeatureLevel(feature.Name), Min: feature.Min, Max: feature.Max}
				if feature.Name == fsm.FeatureVersion {
					l.Level = max(1, l.Level) // it is at 1 without a record
				}
				l.narrow(img)
				list = append(list, l)
				table.Add(l.Name, l.Level, l.Min, l.Max)
			}
			return output.Print(cmd.OutOrStdout(), f.format, list, table)
		},
	}
}

// narrow leaves the levels that every registered process supports.
func (l *listedFeature) narrow(img *fsm.Image) {
	take := func(features []fsm.Feature) {
		for _, f := range features {
			if f.Name == l.Name {
				l.Min, l.Max = max(l.Min, f.Min), min(l.Max, f.Max)
				return
			}
		}
		if l.Name != fsm.FeatureVersion {
			l.Max = 0
		}
	}
	for n := range img.Controllers() {
		take(n.Features)
	}
	for b := range img.Brokers() {
		take(b.Features)
	}
}

func (f *finder) featureUpdate(verb, short string, kind controllerv1.FeatureUpdateType) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: verb + " NAME=LEVEL...", Short: short, Args: some,
		Example: "  skiff feature " + verb + " eligible.leader.replicas.version=" + map[string]string{"upgrade": "1", "downgrade": "0"}[verb] + " --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			var updates []*controllerv1.FeatureUpdate
			for _, arg := range args {
				name, text, _ := strings.Cut(arg, "=")
				level, err := strconv.ParseInt(text, 10, 16)
				if err != nil {
					return config.Usage("write NAME=LEVEL; skiff feature list shows them", "%q is not NAME=LEVEL", arg)
				}
				updates = append(updates, &controllerv1.FeatureUpdate{Name: name, Level: int32(level), Type: kind})
			}
			return f.mutate(cmd, dryRun, mutation{verb: verb, ask: func(ctx context.Context, c *client.Client, dryRun bool) (outcome, error) {
				answer, err := c.UpdateFeatures(ctx, &controllerv1.UpdateFeaturesRequest{Context: operator("UpdateFeatures"), Updates: updates, ValidateOnly: dryRun})
				out := outcome{rehearsal: answer.GetRehearsal()}
				for _, feature := range answer.GetFeatures() {
					out.items = append(out.items, item("feature "+feature.GetName(), feature.GetError()))
				}
				return out, err
			}})
		},
	}
	return dryRunFlag(cmd, &dryRun)
}
