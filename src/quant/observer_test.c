/* Observers against PyTorch's: 78 cases of kinds, options and data, each number. */
#include "../value/json.h"
#include "fx.h"
#include "test.h"

#include <stdlib.h>

static cfx_value read_json(const char *path) {
    FILE *f = fopen(path, "rb");
    static char text[1 << 18];
    if (!CHECK(f != NULL))
        return cfx_bad();
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    return cfx__json_parse(text, n, path);
}

static const char *option(const cfx_dict *d, const char *name) {
    return cfx_text(cfx_dict_get(d, name));
}

static cfx_observer read_options(const char *type, const cfx_dict *d) {
    static const struct {
        const char *type;
        cfx_observer_kind kind;
    } kinds[] = {
        {"MinMaxObserver", CFX_MIN_MAX_OBSERVER},
        {"MovingAverageMinMaxObserver", CFX_MOVING_AVERAGE_MIN_MAX_OBSERVER},
        {"PerChannelMinMaxObserver", CFX_PER_CHANNEL_MIN_MAX_OBSERVER},
        {"MovingAveragePerChannelMinMaxObserver", CFX_MOVING_AVERAGE_PER_CHANNEL_MIN_MAX_OBSERVER},
        {"HistogramObserver", CFX_HISTOGRAM_OBSERVER}};
    cfx_observer how = {0};
    for (int i = 0; i < COUNT(kinds); i++)
        if (!strcmp(type, kinds[i].type))
            how.kind = kinds[i].kind;
    const char *text;
    if ((text = option(d, "dtype")))
        CHECK(cfx_dtype_parse(text, &how.dtype));
    if ((text = option(d, "qscheme")))
        how.qscheme = strstr(text, "per_channel") ? CFX_PER_CHANNEL_SYMMETRIC
                      : strstr(text, "symmetric") ? CFX_PER_TENSOR_SYMMETRIC
                                                  : CFX_PER_TENSOR_AFFINE;
    how.reduce_range = option(d, "reduce_range") != NULL;
    how.quant_min = (text = option(d, "quant_min")) ? atoi(text) : 0;
    how.quant_max = (text = option(d, "quant_max")) ? atoi(text) : 0;
    how.ch_axis = (text = option(d, "ch_axis")) ? atoi(text) : 0;
    how.bins = (text = option(d, "bins")) ? atoi(text) : 0;
    how.averaging_constant = (text = option(d, "averaging_constant")) ? atof(text) : 0;
    return how;
}

static int differences(cfx_value got, cfx_value want) {
    cfx_tensor *t = cfx_as_tensor(got);
    cfx_list *list = want.tag == CFX_TAG_LIST ? cfx_as_list(want) : NULL;
    int64_t n = list ? list->len : 1;
    int bad = cfx_tensor_numel(t) != n;
    for (int64_t i = 0; i < n && !bad; i++)
        bad += cfx_tensor_get(t, i) != cfx_number(list ? list->items[i] : want);
    return bad;
}

TEST(observers_equal_pytorch) {
    cfx_dict *data = cfx_safetensors_read(CFX_TEST_DATA "/quant/observers.safetensors");
    cfx_list *cases = cfx_as_list(read_json(CFX_TEST_DATA "/quant/observers.json"));
    CHECK_INT(cases->len, 78);
    for (int64_t i = 0; i < cases->len; i++)
        CFX_SCOPE {
            cfx_dict *c = cfx_as_dict(cases->items[i]);
            const char *type = cfx_text(cfx_dict_get(c, "observer"));
            const char *on = cfx_text(cfx_dict_get(c, "data"));
            cfx_dict *options = cfx_as_dict(cfx_dict_get(c, "options"));
            cfx_module *m = cfx_observer_new(read_options(type, options));
            CHECK_STR(m->type, type);
            for (int k = 0; k < 3; k++) {
                cfx_value x = cfx_dict_get(data, cfx__text_format("%s_%d", on, k));
                if (x.tag == CFX_TAG_TENSOR)
                    cfx_forward(m, cfx_as_tensor(x));
            }
            cfx_value params = cfx_observer_qparams(m);
            int bad = differences(cfx_module_attr(m, "min_val"), cfx_dict_get(c, "min")) +
                      differences(cfx_module_attr(m, "max_val"), cfx_dict_get(c, "max")) +
                      differences(cfx_at(params, 0), cfx_dict_get(c, "scale")) +
                      differences(cfx_at(params, 1), cfx_dict_get(c, "zero_point"));
            if (!cfx_is_none(cfx_dict_get(c, "histogram")))
                bad += differences(cfx_module_attr(m, "histogram"), cfx_dict_get(c, "histogram"));
            if (bad)
                test_fail(CFX_HERE, "%s %s %s: scale %s", type, cfx_repr(cfx_dict_value(options)),
                          on, cfx_repr(cfx_tensor_get(cfx_tensor_at(params, 0), 0)));
            CHECK_OK();
        }
}

TEST(observers_print_as_pytorch) {
    cfx_module *m = cfx_observer_new(((cfx_observer){.kind = CFX_HISTOGRAM_OBSERVER}));
    CHECK_STR(cfx_module_str(m), "HistogramObserver(min_val=inf, max_val=-inf)");
    cfx_forward(m, cfx_tensor_from_value(cfx_list(-1.0, 0.5, 2.0)));
    CHECK_STR(cfx_module_str(m), "HistogramObserver(min_val=-1.0, max_val=2.0)");
    m = cfx_observer_new(((cfx_observer){.kind = CFX_PER_CHANNEL_MIN_MAX_OBSERVER}));
    CHECK_STR(cfx_module_str(m),
              "PerChannelMinMaxObserver(min_val=tensor([]), max_val=tensor([]))");
    m = cfx_observer_new(
        ((cfx_observer){.kind = CFX_PLACEHOLDER_OBSERVER, .dtype = CFX_QU8, .dynamic = true}));
    CHECK_STR(cfx_module_str(m), "PlaceholderObserver(dtype=torch.quint8, is_dynamic=True)");
    m = cfx_observer_new(((cfx_observer){.kind = CFX_FIXED_QPARAMS_OBSERVER, .scale = 1.0 / 256}));
    CHECK_STR(cfx_module_str(m), "FixedQParamsObserver()");
    CHECK_STR(cfx_str(cfx_observer_qparams(m)),
              "(tensor([0.0039]), tensor([0], dtype=torch.int32))");
}

TEST(observers_refuse_what_does_not_go_together) {
    cfx_observer_new(
        ((cfx_observer){.kind = CFX_MIN_MAX_OBSERVER, .quant_min = 1, .quant_max = 9}));
    CHECK_ERROR("quantization range must include 0");
    cfx_observer_new(
        ((cfx_observer){.kind = CFX_HISTOGRAM_OBSERVER, .qscheme = CFX_PER_CHANNEL_AFFINE}));
    CHECK_ERROR("HistogramObserver's qscheme only support torch.per_tensor_symmetric");
    cfx_module *m = cfx_observer_new(((cfx_observer){.kind = CFX_PLACEHOLDER_OBSERVER}));
    cfx_observer_qparams(m);
    CHECK_ERROR("calculate_qparams should not be called for PlaceholderObserver");
}

TEST(percentile_observer_leaves_out_the_rarest) {
    cfx_observer how = {.kind = CFX_PERCENTILE_OBSERVER, .percentile = 98, .bins = 100};
    cfx_module *m = cfx_observer_new(how);
    cfx_tensor *x = cfx_linspace(-1.0, 1.0, 1000);
    cfx_forward(m, cfx_cat(cfx_list(x, cfx_tensor_from_value(cfx_list(-99.0, 99.0)))));
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(cfx_observer_qparams(m), 0), 0), 3.96 / 255, 1e-6);
}

TEST(rules_of_a_mapping_are_read_back) {
    cfx_qconfig q;
    cfx_qconfig_mapping *m = cfx_qconfig_mapping_new();
    CHECK(cfx_qconfig_find("x86", &q));
    cfx_qconfig_mapping_type(m, "torch.nn.Linear", &q);
    cfx_qconfig_mapping_order(m, "body", "torch.add", 2, NULL);
    CHECK(cfx_qconfig_mapping_count(m) == 3);
    CHECK(cfx_qconfig_mapping_at(m, 0).by == CFX_QCONFIG_GLOBAL);
    CHECK(!cfx_qconfig_mapping_at(m, 0).qconfig);
    cfx_qconfig_rule type = cfx_qconfig_mapping_at(m, 1), order = cfx_qconfig_mapping_at(m, 2);
    CHECK(type.by == CFX_QCONFIG_TYPE && !strcmp(type.text, "Linear") && type.qconfig);
    CHECK(type.qconfig->activation.kind == CFX_HISTOGRAM_OBSERVER);
    CHECK(order.by == CFX_QCONFIG_ORDER && !strcmp(order.text, "body") && order.index == 2);
    CHECK(!strcmp(order.type, "torch.add") && !order.qconfig);
    CHECK(cfx_qconfig_mapping_count(NULL) == 0 && !cfx_qconfig_mapping_at(NULL, 7).text);
}
