# Word alignment, step by step: the part that recipes share. They set
#   S, T            the languages
#   TEXT            prefix of all the text to learn from, that of TEST last: TEXT.$(S), TEXT.$(T)
#   TEST, GOLD      prefix of the text to score, and its links
#   DEV, DEV_GOLD   likewise, to choose epochs by
#   GUIDE_OPTIONS   options of align that make the guide's links out of both directions
#   LINK_OPTIONS    options of align for the links that are scored
#   MERGES, EPOCHS  BPE merges a side; epochs of the guided model
#   PLAIN_MINUTES   how long to train the models that only translate
# and the usual NMTKIT, OUT. The text is tokenised.

PREPARED := $(OUT)/prepared
MODELS := $(OUT)/models
OUTPUT := $(OUT)/output
DIRECTIONS := $S-$T $T-$S
source = $(firstword $(subst -, ,$1))
target = $(lastword $(subst -, ,$1))
# What a pair of languages is trained on: the same text in either direction.
PREPROCESS = "$(NMTKIT)" preprocess --source-lang $(call source,$*) --target-lang $(call target,$*) \
	--train "$(TEXT)" --tokenizer none --case lower --max-length 1000 --max-ratio 1000 --overwrite
ALIGN_TEST = "$(NMTKIT)" align --source "$(TEST).$S" --target "$(TEST).$T"
STEPS := plain ibm1 hmm guided-decoder guided-consumed guided-argmax guided joint again

.PHONY: links table errors
links: $(STEPS:%=$(OUTPUT)/%.pharaoh)
table: links
	"$(NMTKIT)" score $(STEPS:%="$(OUTPUT)/%.pharaoh") --gold "$(GOLD)" --bootstrap 1000
errors: links
	"$(NMTKIT)" score "$(OUTPUT)/hmm.pharaoh" "$(OUTPUT)/guided.pharaoh" --gold "$(GOLD)" \
		--source "$(TEST).$S" --target "$(TEST).$T" --errors

# 1. Statistical aligners, over words, both directions.
$(PREPARED)/words-%/manifest.json: $(TEXT).$S $(TEXT).$T
	$(PREPROCESS) --subwords none --out "$(@D)"

$(foreach arch,ibm1 hmm,$(DIRECTIONS:%=$(MODELS)/$(arch)-%/model.safetensors)): \
$(MODELS)/%/model.safetensors:
	"$(NMTKIT)" train "$(PREPARED)/words-$(call direction,$*)" --arch $(firstword $(subst -, ,$*)) \
		--out "$(MODELS)/$*" --overwrite
direction = $(word 2,$(subst -, ,$1))-$(word 3,$(subst -, ,$1))
$(foreach d,$(DIRECTIONS),$(eval $(MODELS)/ibm1-$d/model.safetensors \
	$(MODELS)/hmm-$d/model.safetensors: $(PREPARED)/words-$d/manifest.json))

$(OUTPUT)/ibm1.pharaoh $(OUTPUT)/hmm.pharaoh: \
$(OUTPUT)/%.pharaoh: $(MODELS)/%-$S-$T/model.safetensors $(MODELS)/%-$T-$S/model.safetensors
	@mkdir -p "$(OUTPUT)"
	$(ALIGN_TEST) "$(MODELS)/$*-$S-$T" --reverse "$(MODELS)/$*-$T-$S" $(LINK_OPTIONS) --out "$@"

# 2. Attention that is guided by the HMMs' links.
$(OUTPUT)/guide.pharaoh: $(DIRECTIONS:%=$(MODELS)/hmm-%/model.safetensors)
	@mkdir -p "$(OUTPUT)"
	"$(NMTKIT)" align "$(MODELS)/hmm-$S-$T" --reverse "$(MODELS)/hmm-$T-$S" \
		--source "$(TEXT).$S" --target "$(TEXT).$T" $(GUIDE_OPTIONS) --out "$@"

$(PREPARED)/subwords-%/manifest.json: $(TEXT).$S $(TEXT).$T
	$(PREPROCESS) --valid "$(DEV)" --merges $(MERGES) --separate --out "$(@D)"

GUIDED = "$(NMTKIT)" train "$(PREPARED)/subwords-$S-$T" --config aligner.toml --epochs $(EPOCHS) \
	--set "training.valid_gold=$(DEV_GOLD)" --out "$(@D)" --overwrite

$(MODELS)/guided/model.safetensors: $(OUTPUT)/guide.pharaoh $(PREPARED)/subwords-$S-$T/manifest.json
	$(GUIDED) --guide "$<"
# Beside translation: the same network also learns to translate.
$(MODELS)/joint/model.safetensors: $(OUTPUT)/guide.pharaoh $(PREPARED)/subwords-$S-$T/manifest.json
	$(GUIDED) --guide "$<" --set training.translation_weight=1
$(OUTPUT)/guided.pharaoh $(OUTPUT)/joint.pharaoh $(OUTPUT)/again.pharaoh: \
$(OUTPUT)/%.pharaoh: $(MODELS)/%/model.safetensors
	$(ALIGN_TEST) "$(MODELS)/$*" $(LINK_OPTIONS) --out "$@"
$(OUTPUT)/guided-argmax.pharaoh: $(MODELS)/guided/model.safetensors
	$(ALIGN_TEST) "$(MODELS)/guided" --out "$@"

# The same without the head: the decoder's own attention, which has not seen the word it predicts.
$(MODELS)/guided-decoder/model.safetensors: \
		$(OUTPUT)/guide.pharaoh $(PREPARED)/subwords-$S-$T/manifest.json
	$(GUIDED) --guide "$<" --set model.alignment_head=false
$(OUTPUT)/guided-decoder.pharaoh: $(MODELS)/guided-decoder/model.safetensors
	$(ALIGN_TEST) "$(MODELS)/guided-decoder" --out "$@"

# Its next row, whose query has taken the word in.
$(MODELS)/guided-consumed/model.safetensors: \
		$(OUTPUT)/guide.pharaoh $(PREPARED)/subwords-$S-$T/manifest.json
	$(GUIDED) --guide "$<" --set model.alignment_head=false --set training.guide_rows=consumed
$(OUTPUT)/guided-consumed.pharaoh: $(MODELS)/guided-consumed/model.safetensors
	$(ALIGN_TEST) "$(MODELS)/guided-consumed" --rows consumed --out "$@"

# 3. Its own links teach the next one.
$(OUTPUT)/again-guide.pharaoh: $(MODELS)/guided/model.safetensors
	"$(NMTKIT)" align "$(MODELS)/guided" --source "$(TEXT).$S" --target "$(TEXT).$T" \
		$(GUIDE_OPTIONS) --out "$@"
$(MODELS)/again/model.safetensors: $(OUTPUT)/again-guide.pharaoh
	$(GUIDED) --guide "$<"

# 0. For comparison: attention that only translates.
$(MODELS)/plain/model.safetensors: $(PREPARED)/subwords-$S-$T/manifest.json
	"$(NMTKIT)" train "$(PREPARED)/subwords-$S-$T" --config recipe.toml --minutes $(PLAIN_MINUTES) \
		--out "$(@D)" --overwrite
$(OUTPUT)/plain.pharaoh: $(MODELS)/plain/model.safetensors
	@mkdir -p "$(OUTPUT)"
	$(ALIGN_TEST) "$(MODELS)/plain" --out "$@"

# Other aligners on the same text; building eflomal needs a C compiler.
PEERS := eflomal thot-fast_align thot-hmm $(MORE_PEERS)
PEER_PYTHON ?= $(OUT)/peers/bin/python
WAYS := intersection union grow-diag-final-and
.PHONY: peers
peers: $(foreach peer,$(PEERS),$(WAYS:%=$(OUTPUT)/$(peer).%.pharaoh)) $(OUTPUT)/systran-fast_align.both
	"$(NMTKIT)" score $(^:%="%") --gold "$(GOLD)"

$(OUT)/peers/bin/python:
	"$(PYTHON)" -m venv "$(OUT)/peers"
	"$@" -m pip install --quiet eflomal==2.0.0 systran-align==3.5.0 sil-thot==3.5.3

$(OUTPUT)/%.both $(OUTPUT)/%.forward $(OUTPUT)/%.backward: $(TEXT).$S $(TEXT).$T | $(PEER_PYTHON)
	@mkdir -p "$(OUTPUT)"
	"$(PEER_PYTHON)" ../../benchmarks/peer_links.py $* "$(TEXT).$S" "$(TEXT).$T" "$(OUTPUT)/$*" \
		--last $$(wc -l <"$(TEST).$S")

define peer_ways
$(WAYS:%=$(OUTPUT)/$1.%.pharaoh): $(OUTPUT)/$1.%.pharaoh: $(OUTPUT)/$1.forward
	"$(NMTKIT)" align --forward "$(OUTPUT)/$1.forward" --backward "$(OUTPUT)/$1.backward" \
		--symmetrize $$* --source "$(TEST).$S" --target "$(TEST).$T" --out "$$@"
endef
$(foreach peer,$(PEERS),$(eval $(call peer_ways,$(peer))))
