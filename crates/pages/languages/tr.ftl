# Turkish (siz). What each message is for is said in en.ftl. A noun after a number stays in the singular.

language-name = Türkçe

waiting-title = Sıradasınız
waiting-lead = Şu anda çok sayıda kişi girmek istiyor. Bu sayfayı kapatsanız bile yeriniz korunur.
standstill-title = Sıra duraklatıldı
standstill-lead = Şu anda kimse içeri alınmıyor. Yeriniz güvende.
near-title = Az kaldı
near-lead = Uzaklaşmayın: sıra birazdan size gelecek.
turn-title = Sıra sizde
turn-lead = Şimdi girebilirsiniz.
turn-lead-auto = İçeri alınıyorsunuz.
turn-remaining = { $count ->
    [one] Yeriniz { $n } saniye daha sizin için tutuluyor.
   *[other] Yeriniz { $n } saniye daha sizin için tutuluyor.
}
turn-remaining-minutes = { $count ->
    [one] Yeriniz { $n } dakika daha sizin için tutuluyor.
   *[other] Yeriniz { $n } dakika daha sizin için tutuluyor.
}
arriving-title = Sıraya giriyorsunuz
arriving-lead = Lütfen bekleyin, yeriniz ayrılıyor.
arriving-cookies = Bir şey olmuyor mu? Yerinizi tutabilmemiz için tarayıcınızın çerezleri kabul etmesi gerekir.
many-arriving-title = Şu anda çok kişi geliyor
many-arriving-lead = Bir dakika: sıraya girmek isteyenler aynı anda alınabilecekten fazla. Bu sayfa kendiliğinden yeniden dener.
cookies-needed-title = Çerezler gerekli
cookies-needed-lead = Tarayıcınız çerezimizi saklamadı, bu yüzden size yer tutamıyoruz. Bu site için çerezlere izin verin, sonra yeniden kontrol edin.
held-title = Yeriniz güvende
held-lead = Bizden kaynaklanan bir arıza nedeniyle sıra kısa bir süre durdu. Bu sayfa kendiliğinden devam edecek.
held-new-title = Lütfen bekleyin
held-new-lead = Sıraya şu anda ulaşılamıyor. Bu sayfa kendiliğinden yeniden deniyor.
gone-title = Sıranız geçti
gone-lead = Giriş süresi doldu ya da sıradan çıktınız. Sıranın sonundan yeni bir yer alabilirsiniz.
left-title = Sıradan çıktınız
left-lead = Yeriniz bir sonraki kişiye geçti. İstediğiniz zaman sıranın sonuna dönebilirsiniz.
moved-title = Yeriniz taşındı
moved-lead = Yerinizi başka bir cihaza veya tarayıcıya aldınız. Oradan devam edin.
closed-title = Kapalı
closed-lead = Artık kimse içeri alınmıyor ve yeni yer verilmiyor.
away-title = Şu anda giriş yok
away-lead = Bu site şu anda kimseyi içeri almıyor. Lütfen daha sonra tekrar gelin.
limited-title = Çok fazla istek
limited-lead = Cihazınızdan veya ağınızdan bu sitenin izin verdiğinden fazla istek geldi. Biraz bekleyip devam edin.
outside-title = Henüz içeride değilsiniz
outside-lead = Sıraya girmek için siteyi açın.
not-done-title = Bu işlem yapılmadı
not-done-lead = Henüz içeride değilsiniz, bu yüzden siteye hiçbir şey gönderilmedi. Sıraya girmek için siteyi açın, içeri girince yeniden deneyin.
unknown-site-title = Bilinmeyen site
unknown-site-lead = Burada bu adda bir site yok.
failed-title = Site yanıt vermiyor
failed-lead = Sizden kaynaklanan bir sorun değil. Lütfen birazdan yeniden deneyin.
refused-title = Bu işlem yapılamadı
refused-lead = Lütfen geri dönüp yeniden deneyin.
inside-title = İçeridesiniz
inside-lead = Bu sayfayı kapatabilirsiniz.
handoff-title = İçeridesiniz
handoff-lead = Siteye yönlendiriliyorsunuz.
confirm-title = Lütfen onaylayın
confirm-lead = Zaten içeridesiniz. Site, devam etmeden önce onay istiyor.
elsewhere-title = Yeriniz artık bu cihazda
elsewhere-lead = Siteyi bu cihazda açıp oturum açın. Sıradaki yeriniz korunur.
for-site = Buradan { $site } sitesine geçeceksiniz.

people-ahead = Önünüzdeki kişi sayısı
people-ahead-of-you = { $count ->
    [0] Sıradaki kişi sizsiniz
    [one] Önünüzde { $n } kişi var
   *[other] Önünüzde { $n } kişi var
}
your-number = Sıra numaranız
estimated-wait = Tahmini bekleme süresi
wait-unknown = Henüz belli değil
wait-less-than-a-minute = Bir dakikadan az
wait-minutes = { $count ->
    [one] Yaklaşık { $n } dakika
   *[other] Yaklaşık { $n } dakika
}
wait-hours = { $count ->
    [one] Yaklaşık { $n } saat
   *[other] Yaklaşık { $n } saat
}
progress-since-joining = Siz geldiğinizden beri sıranın ilerleyişi
updated-at = Son güncelleme: { $time }
connection-lost = Bağlantı yok. Yeriniz güvende; bu sayfa kendiliğinden yeniden deniyor.
what-happens = Sıra size geldiğinde bu sayfa sizi kendiliğinden içeri alır.
what-happens-button = Sıra size geldiğinde burada bir düğme çıkar. Yeriniz o zaman bir süre sizin için tutulur.
keep-open = Sıranız yaklaştığında bu sayfayı açık tutun: yerler o anda burada olanlara verilir.
keep-cookies = Yerinizi bu tarayıcı tutuyor. Çerezlerini silmeyin.
refresh-by-itself = { $count ->
    [one] Bu sayfa { $n } saniyede bir kendiliğinden yenilenir.
   *[other] Bu sayfa { $n } saniyede bir kendiliğinden yenilenir.
}
notice-from-operator = Duyuru

cues = Sıra size geldiğinde
cue-sound = Ses çal
cue-notification = Bildirim göster
cue-notification-blocked = Bu tarayıcıda bildirimler engellenmiş

enter-button = Şimdi gir
continue-button = Devam et
ask-again = Şimdi kontrol et
join-button = Sırada yeni yer al
home-button = Siteye dön
leave-button = Sıradan çık
leave-question = Yerinizden vazgeçiyor musunuz? Yeriniz bir sonraki kişiye geçer ve geri alınamaz.
leave-confirm = Evet, sıradan çık
move-button = Başka bir cihazda devam et
move-title = Yerinizi başka bir cihaza taşıyın
move-lead = Bu bağlantıyı diğer cihazda açın. Yeriniz oraya taşınır ve bu sayfa sona erer.
move-qr-text = Bağlantının QR kodu
move-expires = { $count ->
    [one] Bağlantı { $n } dakika boyunca ve bir kez çalışır.
   *[other] Bağlantı { $n } dakika boyunca ve bir kez çalışır.
}
move-copy = Bağlantıyı kopyala
move-copied = Kopyalandı
move-close = Kapat
take-title = Yerinizle burada devam edin
take-lead = Sıradaki yeriniz bu tarayıcıya taşınır. Diğer cihazda artık geçerli olmaz.
take-instead = Bununla, bu tarayıcının şu anda tuttuğu yerden vazgeçmiş olursunuz.
take-button = Yerimi buraya al
take-failed-title = Bu bağlantı artık çalışmıyor
take-failed-lead = Daha önce kullanılmış ya da çok eski. Yerinizi tutan cihazda yeni bir bağlantı oluşturun.
