// Command restricted reads pod templates, a JSON document each, and prints why Kubernetes' admission would refuse them
// at the level "restricted" of the Pod Security Standards. It uses the code of the API server.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		panic(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for decoder := json.NewDecoder(os.Stdin); ; {
		var pod corev1.PodTemplateSpec
		if err := decoder.Decode(&pod); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		for _, result := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				fmt.Printf("%s: %s\n", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
}
