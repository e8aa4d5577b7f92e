// Tensors over a vector, written to, and given to another library and taken from one by DLPack.
#include <doorbell.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

static void check(int code) {
    if (code != DOORBELL_OK) throw std::runtime_error(doorbell_error());
}

struct Free {
    void operator()(doorbell_engine *engine) const { doorbell_close(engine); }
    void operator()(doorbell_tensor *tensor) const { doorbell_free(tensor); }
};
using Engine = std::unique_ptr<doorbell_engine, Free>;
using Tensor = std::unique_ptr<doorbell_tensor, Free>;

static Tensor over(const Engine &engine, std::shared_ptr<std::vector<float>> values) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(values->size())};
    doorbell_blob blob{};
    blob.data = values->data();
    blob.bytes = values->size() * sizeof(float);
    blob.shape = shape;
    blob.rank = 1;
    blob.type = DOORBELL_F32;
    blob.context = new std::shared_ptr<std::vector<float>>(values);
    blob.release = [](void *kept) { delete static_cast<std::shared_ptr<std::vector<float>> *>(kept); };
    doorbell_tensor *tensor;
    check(doorbell_from_blob(engine.get(), &blob, &tensor));
    return Tensor(tensor);
}

int main() try {
    doorbell_engine *opened;
    check(doorbell_open("CPU", &opened));
    Engine engine(opened);
    auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
    auto others = std::make_shared<std::vector<float>>(std::vector<float>{4, 5, 6});
    {
        Tensor x = over(engine, values), y = over(engine, others);
        check(doorbell_overwrite(x.get(), y.get()));
        std::printf("%g %g %g\n", (*values)[0], (*values)[1], (*values)[2]);

        DLManagedTensorVersioned *given;
        check(doorbell_to_dlpack(x.get(), 0, &given));
        doorbell_tensor *taken;
        check(doorbell_from_dlpack(engine.get(), given, &taken));
        Tensor z(taken);
        std::uint64_t address;
        check(doorbell_address(z.get(), &address));
        std::printf("%s\n", address == reinterpret_cast<std::uint64_t>(values->data()) ? "the same memory" : "a copy");
        doorbell_shape shape;
        check(doorbell_describe(z.get(), &shape));
        std::printf("%u axis of %lld, %zu bytes\n", shape.rank, static_cast<long long>(shape.sizes[0]), shape.bytes);
    }
    check(doorbell_synchronize(engine.get()));
    std::printf("%ld\n", values.use_count());
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
